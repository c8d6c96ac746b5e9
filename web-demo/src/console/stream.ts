import type { Problem } from './messages.js';

/** One event as the node sent it. */
export interface StreamEvent {
  /** Empty for a change of a counter. */
  readonly name: string;
  readonly data: string;
}

/** What a stream tells whoever opened it. */
export interface Ears {
  opened(): void;
  heard(event: StreamEvent): void;
  /** It ended, or was refused; it is opened again by itself. */
  ended(problem: Problem | undefined): void;
}

const AGAIN_MS = 2_000;

/** Server-sent events read with `fetch`: a browser's `EventSource` can show no ticket, nor tell why it was refused. */
export class Stream {
  readonly #url: string;
  readonly #headers: Record<string, string>;
  readonly #ears: Ears;
  /** Ends what runs; one that was used says that nothing runs. */
  #abort: AbortController | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** The id up to which everything was heard. */
  #last = '';
  open = false;

  constructor(url: string, headers: Record<string, string>, ears: Ears) {
    this.#url = url;
    this.#headers = headers;
    this.#ears = ears;
  }

  /** Opens it; what changed since it was open last is told first. */
  start(): void {
    if (this.#abort && !this.#abort.signal.aborted) return;
    this.#abort = new AbortController();
    void this.#run(this.#abort.signal);
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.open = false;
    this.#abort?.abort();
  }

  async #run(signal: AbortSignal): Promise<void> {
    let problem: Problem | undefined;
    try {
      const headers = this.#last ? { ...this.#headers, 'last-event-id': this.#last } : this.#headers;
      const answer = await fetch(this.#url, { headers, signal, cache: 'no-store' });
      if (!answer.ok) problem = (await answer.json()) as Problem;
      else {
        this.open = true;
        this.#ears.opened();
        await this.#read(answer.body!.pipeThrough(new TextDecoderStream()).getReader(), signal);
      }
    } catch {
      // It broke, which is told like an end.
    }
    if (signal.aborted) return;
    this.open = false;
    this.#ears.ended(problem);
    this.#timer = setTimeout(() => void this.#run(signal), AGAIN_MS);
  }

  async #read(reader: ReadableStreamDefaultReader<string>, signal: AbortSignal): Promise<void> {
    let rest = '';
    for (;;) {
      const { done, value } = await reader.read();
      if (done || signal.aborted) return;
      const blocks = (rest + value).split('\n\n');
      rest = blocks.pop()!;
      for (const block of blocks) this.#take(block);
    }
  }

  #take(block: string): void {
    let [name, data, id] = ['', '', ''];
    for (const line of block.split('\n')) {
      if (line.startsWith('data:')) data += line.slice(5).trimStart();
      else if (line.startsWith('event:')) name = line.slice(6).trim();
      else if (line.startsWith('id:')) id = line.slice(3).trim();
    }
    if (data) this.#ears.heard({ name, data });
    if (id) this.#last = id;
  }
}
