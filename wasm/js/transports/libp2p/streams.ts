// Whole messages over streams of js-libp2p: one each way, up to where its end is closed.
import type { NodeConnection, NodeStream } from './node.js';

/** A message that takes longer is given up. */
const MESSAGE_MS_MAX = 20_000;

/** So many bytes are handed to a stream at once. */
const WRITE_BYTES = 64 << 10;

/** More came than may come. */
export class TooLong extends Error {}

/** Reads to the end of what the other side sends, which is an error as soon as it is over `bytesMax`. */
export function readAll(stream: NodeStream, bytesMax: number): Promise<Uint8Array<ArrayBuffer>> {
  return new Promise((resolve, reject) => {
    const chunks: Uint8Array[] = [];
    let bytes = 0;
    const give = (error: Error): void => {
      clearTimeout(timer);
      reject(error);
      stream.abort(error);
    };
    const timer = setTimeout(() => give(new Error('a message takes too long')), MESSAGE_MS_MAX);
    const end = (): void => {
      clearTimeout(timer);
      if (stream.status === 'reset' || stream.status === 'aborted') return reject(new Error(`the stream was ${stream.status}`));
      const whole = new Uint8Array(bytes);
      let at = 0;
      for (const chunk of chunks) {
        whole.set(chunk, at);
        at += chunk.length;
      }
      resolve(whole);
    };
    stream.addEventListener('message', ({ data }) => {
      // Of one array or of a list of several: either way this is one.
      const chunk: Uint8Array = data.subarray();
      bytes += chunk.length;
      if (bytes > bytesMax) return give(new TooLong(`a message has at most ${bytesMax} bytes here`));
      chunks.push(chunk);
    });
    stream.addEventListener('end', end);
    stream.addEventListener('close', () => {
      if (stream.status !== 'closed' || stream.readableEnded) end();
    });
    if (stream.readableEnded) end();
  });
}

/** Asks one thing, and gives the answer. */
export async function ask(connection: NodeConnection, protocol: string, question: Uint8Array, answerMax: number): Promise<Uint8Array> {
  const signal = AbortSignal.timeout(MESSAGE_MS_MAX);
  const stream = await connection.newStream(protocol, { signal, runOnLimitedConnection: true });
  try {
    const answer = readAll(stream, answerMax);
    // It is looked at below, unless writing fails before.
    answer.catch(() => {});
    for (let at = 0; at < question.length; at += WRITE_BYTES) {
      if (!stream.send(question.subarray(at, at + WRITE_BYTES))) await stream.onDrain({ signal });
    }
    await stream.close({ signal });
    return await answer;
  } catch (error) {
    stream.abort(error as Error);
    throw error;
  }
}
