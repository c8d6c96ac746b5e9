// Shows each operation of ../openapi.json as a form, and sends what is filled in to this node.

/** An element with attributes and children; texts are set as texts, never as HTML. */
function make(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** The answer that is read is cut there: streams have no end. */
const SHOWN_CHARS_MAX = 100_000;
const METHODS = ['get', 'post', 'put', 'delete'];

const description = await (await fetch('../openapi.json')).json();

/** What a reference within the description names. */
function resolved(part) {
  let at = part;
  while (at?.$ref) at = at.$ref.split('/').slice(1).reduce((inside, name) => inside[name.replaceAll('~1', '/').replaceAll('~0', '~')], description);
  return at;
}

/** A value of a schema, to begin with: its example, or one made of its parts. */
function sample(given, depth = 0) {
  const schema = resolved(given) ?? {};
  if (schema.example !== undefined) return schema.example;
  if (schema.examples?.length > 0) return schema.examples[0];
  if (schema.default !== undefined) return schema.default;
  if (schema.enum) return schema.enum[0];
  if (depth > 5) return null;
  const choice = (schema.oneOf ?? schema.anyOf)?.find((it) => resolved(it).type !== 'null');
  if (choice) return sample(choice, depth + 1);
  if (schema.allOf) return Object.assign({}, ...schema.allOf.map((it) => sample(it, depth + 1)));
  const type = [schema.type].flat().find((it) => it !== 'null');
  if (type === 'object' || schema.properties) {
    const required = new Set(schema.required ?? []);
    const fields = Object.entries(schema.properties ?? {}).filter(([name]) => required.size === 0 || required.has(name));
    return Object.fromEntries(fields.map(([name, field]) => [name, sample(field, depth + 1)]));
  }
  if (type === 'array') return [sample(schema.items, depth + 1)];
  if (type === 'integer' || type === 'number') return schema.minimum ?? 1;
  return type === 'boolean' ? false : '';
}

/** A labelled field; `hint` is read with it. */
function field(id, title, hint, control) {
  control.id = id;
  const label = make('label', { for: id }, title);
  if (!hint) return make('div', { class: 'field' }, label, control);
  control.setAttribute('aria-describedby', `${id}-hint`);
  return make('div', { class: 'field' }, label, make('span', { class: 'hint', id: `${id}-hint` }, hint), control);
}

/** What stands in an operation once it is opened. */
function inside(method, path, operation) {
  const id = operation.operationId;
  const inputs = (operation.parameters ?? []).map(resolved).map((parameter) => {
    const control = make('input', { autocomplete: 'off', spellcheck: 'false' });
    // Optional fields are left out at first.
    if (parameter.required) control.value = parameter.example ?? '';
    if (parameter.required) control.required = true;
    else if (parameter.example !== undefined) control.placeholder = parameter.example;
    const title = `${parameter.name} (${parameter.in}${parameter.required ? '' : ', optional'})`;
    return { parameter, control, row: field(`${id}-${parameter.in}-${parameter.name}`, title, parameter.description, control) };
  });
  const body = resolved(operation.requestBody);
  const [type, content] = Object.entries(body?.content ?? {})[0] ?? [];
  let text;
  const rows = inputs.map(({ row }) => row);
  if (type && type !== 'application/octet-stream') {
    text = make('textarea', { rows: '6', spellcheck: 'false' });
    const begin = content.example ?? (content.examples && resolved(Object.values(content.examples)[0])?.value) ?? sample(content.schema);
    text.value = typeof begin === 'string' ? begin : JSON.stringify(begin, undefined, 2);
    rows.push(field(`${id}-body`, `Body (${type})`, body.description, text));
  }
  const send = make('button', { type: 'submit' }, 'Send');
  const stop = make('button', { type: 'button', disabled: '' }, 'Stop');
  const status = make('p', { role: 'status', class: 'answer-status' });
  const answer = make('pre', { tabindex: '0', role: 'region', 'aria-label': `Answer to ${id}`, hidden: '' });
  const form = make('form', {}, ...rows, send, stop);
  let running;
  stop.addEventListener('click', () => running?.abort());
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    running?.abort();
    const mine = (running = new AbortController());
    stop.disabled = false;
    status.textContent = 'Waiting for the node.';
    try {
      await ask(method, path, inputs, type, text, mine.signal, status, answer);
    } catch (error) {
      status.textContent = mine.signal.aborted ? 'Stopped.' : `The node did not answer: ${error.message}`;
    }
    if (running === mine) stop.disabled = true;
  });
  const answers = Object.entries(operation.responses ?? {}).map(([code, it]) =>
    make('tr', {}, make('th', { scope: 'row' }, code), make('td', {}, resolved(it).description ?? '')));
  const table = make('table', {}, make('tbody', {}, ...answers));
  const about = operation.description ? [make('p', {}, operation.description)] : [];
  return make('div', { class: 'inside' }, ...about, form, status, answer, make('h4', {}, 'Answers'), table);
}

/** Sends a request, and shows what comes as it comes. */
async function ask(method, path, inputs, type, text, signal, status, answer) {
  const headers = new Headers();
  const query = new URLSearchParams();
  let place = path;
  for (const { parameter: { name, in: where, required }, control } of inputs) {
    if (where === 'path') place = place.replace(`{${name}}`, encodeURIComponent(control.value));
    else if (control.value === '' && !required) continue;
    else if (where === 'query') query.set(name, control.value);
    else headers.set(name, control.value);
  }
  const ticket = document.getElementById('ticket').value.trim();
  if (ticket) headers.set('authorization', `Bearer ${ticket}`);
  const body = text && text.value.trim() !== '' ? text.value : undefined;
  if (body !== undefined) headers.set('content-type', type);
  const asked = query.size > 0 ? `${place}?${query}` : place;
  const response = await fetch(`..${asked}`, { method: method.toUpperCase(), headers, body, signal });
  answer.hidden = false;
  answer.textContent = '';
  status.textContent = `${response.status} ${response.statusText}`;
  const isJson = /json/.test(response.headers.get('content-type') ?? '');
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  for (let read = await reader?.read(); read && !read.done; read = await reader.read()) {
    answer.textContent = (answer.textContent + read.value).slice(-SHOWN_CHARS_MAX);
  }
  if (isJson && answer.textContent) {
    try {
      answer.textContent = JSON.stringify(JSON.parse(answer.textContent), undefined, 2);
    } catch {
      // It was longer than what is shown: it stays as it came.
    }
  }
}

const operations = Object.entries(description.paths).flatMap(([path, item]) =>
  METHODS.filter((method) => item[method]).map((method) => ({ path, method, operation: item[method] })));
const says = new Map(description.tags.map((tag) => [tag.name, tag.description]));
const tags = new Set([...says.keys(), ...operations.map(({ operation }) => operation.tags[0])]);
const sections = [...tags].map((name) => {
  const own = operations.filter(({ operation }) => operation.tags?.[0] === name).map(({ path, method, operation }) => {
    const head = make('h3', {}, make('code', { class: 'method' }, method.toUpperCase()), ' ', make('code', {}, path));
    const summary = make('summary', {}, head, make('span', { class: 'says' }, operation.summary ?? ''));
    const details = make('details', { class: 'operation', id: operation.operationId }, summary);
    // Fields of all operations at once would be some thousand.
    details.addEventListener('toggle', () => details.append(inside(method, path, operation)), { once: true });
    return details;
  });
  return make('section', { 'aria-labelledby': `tag-${name}` }, make('h2', { id: `tag-${name}` }, name), make('p', {}, says.get(name) ?? ''), ...own);
});
document.getElementById('operations').replaceChildren(...sections);
