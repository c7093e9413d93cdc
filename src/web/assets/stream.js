// Follows a stream of the host's until it is stopped: what is cut off is asked for again, from the last that was told.

const SOON = 500;
const LATE = 15000;
/** Milliseconds of reading after which the page is let go on. */
const READS = 8;

class Gone extends Error { constructor(/** @type {number} */ status) { super(); this.status = status; } }
class Later extends Error { constructor(/** @type {number} */ wait) { super(); this.wait = wait; } }

const later = (/** @type {number} */ wait) => new Promise((done) => setTimeout(done, wait));

/**
 * @typedef {object} Follows
 * @property {(last: string) => URL} from where the stream is, behind what was told last
 * @property {(name: string, data: string, id: string) => void} told
 * @property {(lost: number) => void} opened after so many milliseconds without, where the connection was lost
 * @property {() => void} lost the connection is, and it is asked for anew
 * @property {(status: number) => void} gone there is nothing to follow any more
 */

export class Stream {
  /** The id of what was told last. */
  last = "";
  /** @type {AbortController | undefined} */
  #going;
  /** @type {Follows} */
  #follows;

  /** @param {Follows} follows */
  constructor(follows) { this.#follows = follows; }

  get going() { return this.#going !== undefined; }

  /** Follows from behind what was told last. */
  start() {
    this.stop();
    this.#going = new AbortController();
    this.#run(this.#going.signal);
  }

  stop() {
    this.#going?.abort();
    this.#going = undefined;
  }

  async #run(/** @type {AbortSignal} */ signal) {
    let wait = SOON;
    let lost = 0;
    while (!signal.aborted) {
      let after = 0;
      try {
        await this.#read(signal, () => {
          this.#follows.opened(lost ? performance.now() - lost : 0);
          [lost, wait] = [0, SOON];
        });
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof Gone) {
          this.#going = undefined;
          return this.#follows.gone(error.status);
        }
        if (error instanceof Later) after = error.wait;
      }
      if (signal.aborted) return;
      lost ||= performance.now();
      this.#follows.lost();
      await later(Math.max(after, wait * (0.5 + Math.random())));
      wait = Math.min(wait * 2, LATE);
    }
  }

  /** Reads one stream to its end. @param {AbortSignal} signal @param {() => void} opened */
  async #read(signal, opened) {
    const headers = { accept: "text/event-stream", ...(this.last && { "last-event-id": this.last }) };
    const answer = await fetch(this.#follows.from(this.last), { headers, signal });
    if (answer.status === 401 || answer.status === 403 || answer.status === 404) throw new Gone(answer.status);
    if (!answer.ok || !answer.body) throw new Later(Number(answer.headers.get("retry-after") ?? 0) * 1000);
    opened();
    const text = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    let began = performance.now();
    for (;;) {
      const { done, value } = await text.read();
      if (done) return;
      const blocks = (rest + value).split("\n\n");
      rest = blocks.pop() ?? "";
      for (const block of blocks) this.#event(block);
      // What has come already is read without a pause: the page is given one.
      if (performance.now() - began < READS) continue;
      await later(0);
      if (signal.aborted) return;
      began = performance.now();
    }
  }

  /** @param {string} block */
  #event(block) {
    let [name, id, data] = ["message", "", ""];
    for (const line of block.split("\n")) {
      const at = line.indexOf(":");
      if (at <= 0) continue;
      const value = line.slice(at + 1).replace(/^ /, "");
      if (line.startsWith("event:")) name = value;
      else if (line.startsWith("id:")) id = value;
      else if (line.startsWith("data:")) data += data ? `\n${value}` : value;
    }
    this.#follows.told(name, data, id);
    if (id) this.last = id;
  }
}
