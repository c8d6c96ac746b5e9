/** Makes an element with a class and contents. */
export function make<Name extends keyof HTMLElementTagNameMap>(name: Name, kind: string, ...contents: (Node | string)[]): HTMLElementTagNameMap[Name] {
  const made = document.createElement(name);
  if (kind) made.className = kind;
  made.append(...contents);
  return made;
}

/** The element of the page that has this id. */
export function element<T extends Element = HTMLElement>(id: string): T {
  return document.getElementById(id) as unknown as T;
}

/** Whether the console is looked at, and not the demonstration; the style sheet goes by the same. */
export function isConsole(): boolean {
  return location.hash === '#console';
}
