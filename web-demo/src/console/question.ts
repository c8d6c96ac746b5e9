import { element } from '../make.js';
import { Refused } from './writes.js';

/** What is asked before something is done. */
export interface Question {
  readonly title: string;
  readonly text: string;
  /** What the button says that does it. */
  readonly deed: string;
  /** Whether it takes something away. */
  readonly destroys: boolean;
  /** Fields to fill: by name, what they are called, and what is in them at first. */
  readonly fields?: readonly { readonly name: string; readonly label: string; readonly value: string }[];
  /** Does it; what it throws is shown, and the question stays. */
  act(values: Readonly<Record<string, string>>): Promise<void>;
}

/** A dialog that asks, does what it is told, and shows why it could not. */
export class Asker {
  readonly #dialog = element<HTMLDialogElement>('question');
  readonly #form = element<HTMLFormElement>('question-form');
  readonly #fields = element('question-fields');
  readonly #deed = element<HTMLButtonElement>('question-deed');
  readonly #complaint = element('question-complaint');
  #question: Question | undefined;

  constructor() {
    this.#form.addEventListener('submit', (event) => {
      event.preventDefault();
      void this.#act();
    });
    element('question-cancel').addEventListener('click', () => this.#dialog.close());
    // A click beside the dialog is one on its backdrop.
    this.#dialog.addEventListener('click', (event) => event.target === this.#dialog && this.#dialog.close());
  }

  ask(question: Question): void {
    this.#question = question;
    element('question-title').textContent = question.title;
    element('question-text').textContent = question.text;
    this.#deed.textContent = question.deed;
    this.#deed.classList.toggle('danger', question.destroys);
    this.#complaint.textContent = '';
    this.#fields.replaceChildren(
      ...(question.fields ?? []).map(({ name, label, value }) => {
        const line = document.createElement('label');
        const input = document.createElement('input');
        Object.assign(input, { name, value, autocomplete: 'off', spellcheck: false });
        if (name === 'number') input.inputMode = 'numeric';
        line.append(label, input);
        return line;
      }),
    );
    this.#dialog.showModal();
    const first = this.#fields.querySelector('input');
    first?.select();
  }

  async #act(): Promise<void> {
    const question = this.#question;
    if (!question || this.#deed.disabled) return;
    const values = Object.fromEntries([...new FormData(this.#form)].map(([name, value]) => [name, String(value).trim()]));
    this.#deed.disabled = true;
    try {
      await question.act(values);
      this.#dialog.close();
    } catch (error) {
      complain(this.#complaint, error);
    } finally {
      this.#deed.disabled = false;
    }
  }
}

/** Shows why something was refused, with the code by which it can be looked up. */
export function complain(at: HTMLElement, error: unknown): void {
  if (!(error instanceof Refused)) {
    at.textContent = 'Something in this page failed. Please reload it.';
    throw error;
  }
  const code = document.createElement('code');
  code.textContent = error.code;
  at.replaceChildren(code, ` ${error.message}`);
}
