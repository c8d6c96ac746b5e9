import type { TallymeshError } from '../internal/errors.js';
import type { Link } from '../replica/peer.js';
import { FRAME_BYTES_MAX, read, written, type Message, type Said } from './messages.js';
import { PersistentConnection } from './persistent.js';

/** Another replica that was met. */
export interface Other {
  readonly id: string;
  /** Whether it holds the lock of its name for as long as it is there. */
  readonly locked: boolean;
  /** The number of the link here. */
  mine: number;
  /** The number of the link there, once it is known. */
  yours: number | undefined;
  link: Link | undefined;
  failures: number;
  /** What `failures` was when the link was begun. */
  failuresBefore: number;
  /** Runs while the link failed and is not begun again yet. */
  timer: ReturnType<typeof setTimeout> | undefined;
  /** Ends what watches over it. */
  unwatch: () => void;
}

/**
 * Where replicas meet that hear each other's messages: each has one link with each other one. The one that comes
 * tells all; those that hear it begin a link with it. Either end may begin, and both at once do no harm: a link is
 * up once both know its two numbers, and what is told under other numbers is of an earlier one.
 */
export abstract class Room extends PersistentConnection {
  protected readonly others = new Map<string, Other>();
  /** The name of this replica here, another one each time that it comes; empty while it is away. */
  protected id = '';
  /** Whether a lock of that name is held. */
  protected locked = false;
  #links = 0;
  #closeWire = (): void => {};

  /** How many others there may be. */
  protected abstract readonly most: number;

  /** Opens what carries messages and comes in; what it gives ends that. */
  protected abstract open(): () => void;

  /** Sends a message to all that listen. */
  protected abstract post(message: object): void;

  /** Calls `gone` when the other one is no more there, although it has not said goodbye. */
  protected abstract watch(other: Other, gone: () => void): () => void;

  protected override begin(): void {
    this.become('connecting');
    this.#closeWire = this.open();
  }

  protected override end(): void {
    if (this.id) this.say({ kind: 'bye' });
    this.id = '';
    for (const other of [...this.others.values()]) this.#forget(other);
    this.#closeWire();
    this.#closeWire = () => {};
  }

  /** Comes in under this name. */
  protected enter(id: string, locked: boolean): void {
    this.id = id;
    this.locked = locked;
    this.say({ kind: 'join' });
  }

  /** Says something, to all or to one. */
  protected say(said: Said, to?: string): void {
    try {
      this.post(written({ from: this.id, locked: this.locked, to, ...said }));
    } catch (cause) {
      this.note(this.problem('link_lost', `nothing can be sent over ${this.url}`, { cause }));
    }
  }

  /** Takes a message, which may be anything. */
  protected hear(data: unknown): void {
    const message = read(data);
    // Who has not come in yet is told nothing that it would not be told again.
    if (!message || !this.id || message.from === this.id) return;
    const other = this.others.get(message.from);
    if (message.kind === 'malformed') {
      if (other) this.#refuse(other, this.problem('malformed', 'the link was closed: a message came that Tallymesh never sends'));
      return;
    }
    if (message.to !== undefined && message.to !== this.id) return;
    if (other) this.heard(other);
    switch (message.kind) {
      case 'open':
        this.#opened(other, message);
        break;
      case 'frame':
        if (other?.link && message.yours === other.mine) this.#take(other, other.link, message.frame);
      // Whoever sends frames and is not known was given up for gone.
      case 'join':
      case 'alive': {
        const met = other ? undefined : this.#meet(message);
        if (met) this.#dial(met);
        break;
      }
      case 'close':
        // Who ended it begins it again, if it is to be.
        if (other?.link && message.yours === other.mine) this.#forget(other);
        break;
      case 'bye':
        if (other) this.#forget(other);
    }
    this.#show();
  }

  /** Called when something is heard of another one. */
  protected heard(_: Other): void {}

  /** Closes the link with one that is no more there. */
  protected lost(other: Other): void {
    this.note(this.problem('link_lost', `the link over ${this.url} was lost: the other end has gone without a word`));
    this.#forget(other);
    this.#show();
  }

  #meet({ from: id, locked }: Message): Other | undefined {
    // There is one at the other end of a port: the one before has gone.
    if (this.most === 1) for (const other of [...this.others.values()]) this.#forget(other);
    if (this.others.size >= this.most) {
      this.note(this.problem('peers_full', `${this.most} peers are there already, which is the most for ${this.url}`));
      return undefined;
    }
    const idle = { link: undefined, failures: 0, failuresBefore: 0, timer: undefined, unwatch: () => {} };
    const other: Other = { id, locked, mine: 0, yours: undefined, ...idle };
    this.others.set(id, other);
    other.unwatch = this.watch(other, () => {
      if (this.others.get(id) === other) this.lost(other);
    });
    return other;
  }

  #forget(other: Other): void {
    this.others.delete(other.id);
    clearTimeout(other.timer);
    other.unwatch();
    other.link?.close();
    other.link = undefined;
  }

  /** Begins a link. */
  #dial(other: Other): void {
    this.#number(other);
    this.say({ kind: 'open', mine: other.mine }, other.id);
  }

  /** Gives what comes next a number of its own. */
  #number(other: Other): void {
    clearTimeout(other.timer);
    other.timer = undefined;
    other.link?.close();
    other.link = undefined;
    other.mine = ++this.#links;
    other.yours = undefined;
    other.failuresBefore = other.failures;
  }

  #opened(known: Other | undefined, message: Extract<Message, { kind: 'open' }>): void {
    const { mine, yours } = message;
    const dialled = known && known.mine > 0 && known.yours === undefined && known.timer === undefined;
    if (yours !== undefined) {
      // Else it answers what was given up meanwhile.
      if (dialled && known.mine === yours) this.#up(known, mine);
      return;
    }
    // Both began: each knows the other's number now.
    if (dialled) return this.#up(known, mine);
    const other = known ?? this.#meet(message);
    if (!other) return;
    this.#number(other);
    this.say({ kind: 'open', mine: other.mine, yours: mine }, other.id);
    this.#up(other, mine);
  }

  #up(other: Other, yours: number): void {
    const { mine, id } = other;
    const current = (): boolean => other.mine === mine && this.others.get(id) === other;
    other.yours = yours;
    const link = this.attach(
      (frame) => current() && this.say({ kind: 'frame', yours, frame }, id),
      () => {
        if (!current()) return;
        this.say({ kind: 'close', yours }, id);
        this.#dial(other);
        this.#show();
      },
      (reason) => {
        if (current()) this.#refuse(other, reason);
      },
    );
    if (!link || !current()) return link?.close();
    this.note(undefined);
    other.link = link;
  }

  #take(other: Other, link: Link, frame: Uint8Array): void {
    if (frame.length > FRAME_BYTES_MAX) {
      return this.#refuse(other, this.problem('too_large', `the link was closed: a frame has at most ${FRAME_BYTES_MAX} bytes`));
    }
    link.receive(frame);
    // What the replica refused has ended the link by now.
    if (other.link === link) other.failures = 0;
  }

  /** Closes a link that went wrong, and begins it again after a while. */
  #refuse(other: Other, reason: TallymeshError): void {
    if (other.yours === undefined) return;
    this.note(reason);
    this.say({ kind: 'close', yours: other.yours }, other.id);
    // What was refused will be refused again: that the link came up was no success.
    other.failures = other.failuresBefore + 1;
    this.#number(other);
    other.timer = setTimeout(() => {
      this.#dial(other);
      this.#show();
    }, this.backOff(other.failures - 1));
    this.#show();
  }

  /** Shows how the connection stands by now. */
  #show(): void {
    if (!this.running || !this.id) return;
    const others = [...this.others.values()];
    if (others.some(({ link }) => link)) this.become('online');
    else this.become(others.some(({ timer }) => timer !== undefined) ? 'waiting' : 'connecting');
  }
}
