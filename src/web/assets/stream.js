// Follows an event stream of the host until stopped. Reconnects from the last received event.

const SOON = 500;
const LATE = 15000;
/** Milliseconds of reading before the page gets a pause. */
const READS = 8;

class Gone extends Error { constructor(/** @type {number} */ status) { super(); this.status = status; } }
class Later extends Error { constructor(/** @type {number} */ wait) { super(); this.wait = wait; } }

const later = (/** @type {number} */ wait) => new Promise((done) => setTimeout(done, wait));

/**
 * @typedef {object} Follows
 * @property {(last: string) => URL} from returns the address of the stream after the last event
 * @property {(name: string, data: string, id: string) => void} received called for each event
 * @property {(lost: number) => void} opened called when connected, with the milliseconds since a
 * lost connection
 * @property {() => void} lost called when the connection is lost and a new one is tried
 * @property {(status: number) => void} gone called when the stream has ended for good
 */

export class Stream {
  /** Id of the last received event. */
  last = "";
  /** @type {AbortController | undefined} */
  #going;
  /** @type {Follows} */
  #follows;

  /** @param {Follows} follows */
  constructor(follows) { this.#follows = follows; }

  get going() { return this.#going !== undefined; }

  /** Starts after the last received event. */
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

  /**
   * Reads one stream to its end.
   * @param {AbortSignal} signal
   * @param {() => void} opened
   */
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
      // Buffered data arrives without a pause, so give the page one.
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
    this.#follows.received(name, data, id);
    if (id) this.last = id;
  }
}
