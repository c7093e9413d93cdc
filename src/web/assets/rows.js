// Shows new rows at the top of a list while it is visible. The host announces new rows, and the
// script then fetches them.

import { held, part, showTimes } from "./site.js";
import { Stream } from "./stream.js";

const PACE = 1500;
const MOST_ROWS = 200;

const box = /** @type {HTMLElement | null} */ (document.querySelector("#rows"));

if (box?.dataset.live) {
  const { live, rows: page = "" } = box.dataset;
  /** Maximum rows. A list of the latest rows does not mention removed ones. */
  const most = Number(box.dataset.most ?? MOST_ROWS);
  const follow = /** @type {HTMLButtonElement} */ (document.querySelector("#follow"));
  const newer = /** @type {HTMLButtonElement} */ (document.querySelector("#newer"));
  const status = /** @type {HTMLElement} */ (document.querySelector("#following"));
  let looking = false;
  /** Announced rows that are not on the page yet. */
  let due = 0;
  let dropped = 0;

  /** @param {string} words */
  const say = (words) => { if (status.textContent !== words) status.textContent = words; };

  /**
   * Fetches the first rows of the list, with its sums.
   * @param {number} rows
   */
  function first(rows) {
    const address = new URL(page, location.href);
    address.searchParams.set("rows", String(rows));
    return part(address);
  }

  /** @param {HTMLTableRowElement} row */
  const name = (row) => row.querySelector("[data-row]")?.getAttribute("data-row");

  /**
   * Returns a row with a single cell.
   * @param {number} columns
   * @param {string} words
   */
  function note(columns, words) {
    const row = document.createElement("tr");
    const cell = row.insertCell();
    cell.colSpan = columns;
    const link = document.createElement("a");
    link.href = location.href;
    link.textContent = "open the page again";
    cell.append(`${words} · `, link);
    row.className = "gap";
    return row;
  }

  /**
   * Returns the rows of a fetched page, and those that are new here.
   * @param {Document} fresh
   */
  function compared(fresh) {
    const known = new Set([...box?.querySelectorAll("tbody tr") ?? []].map((row) => name(/** @type {HTMLTableRowElement} */ (row))));
    const theirs = /** @type {HTMLTableRowElement[]} */ ([...fresh.querySelectorAll("#rows tbody tr")]);
    return { theirs, more: theirs.filter((row) => !known.has(name(row))) };
  }

  /**
   * Fetches the announced rows and one known row. If the known row is not among them, fetches a
   * full page.
   * @param {number} count
   */
  async function fetchRows(count) {
    const rows = Math.min(count + 1, most);
    const few = await first(rows);
    const { theirs, more } = compared(few);
    const misses = more.length < Math.min(count, theirs.length) || more.length === theirs.length;
    return misses && rows < most && theirs.length === rows ? first(most) : few;
  }

  /**
   * Puts new rows on top.
   * @param {Document} fresh
   */
  function merge(fresh) {
    const [sums, list] = ["#sums", "#rows"].map((part) => fresh.querySelector(part));
    if (sums) document.querySelector("#sums")?.replaceChildren(...sums.childNodes);
    const { theirs, more } = compared(fresh);
    if (!list || !theirs.length) return;
    const rows = box?.querySelector("tbody");
    if (!rows) return box?.replaceChildren(...list.childNodes);
    const columns = theirs[0].cells.length;
    // No row of the fetched page is known: there are more new rows than it shows.
    const gap = more.length === theirs.length && rows.rows.length ? [note(columns, "More entries exist than are shown here")] : [];
    rows.prepend(...more, ...gap);
    const over = rows.rows.length - most;
    if (over <= 0) return;
    const left = [...rows.rows].slice(-over);
    dropped += left.filter((row) => name(row)).length;
    left.forEach((row) => row.remove());
    if (!box?.dataset.most) rows.append(note(columns, `${dropped} earlier rows are no longer on this page`));
  }

  async function look() {
    if (looking || !due) return;
    const count = due;
    [looking, due] = [true, 0];
    newer.hidden = true;
    try {
      merge(await fetchRows(count));
      showTimes();
      if (stream.going) say("Following");
    } catch (error) {
      due += count;
      say(`New rows are not available: ${/** @type {Error} */ (error).message}`);
    }
    setTimeout(() => { looking = false; arrived(); }, PACE);
  }

  function arrived() {
    if (!due || looking) return;
    if (!held(box) && !document.hidden) return look();
    newer.hidden = false;
  }

  const stream = new Stream({
    from(last) {
      const from = new URL(live, location.href);
      // Nothing received yet: start from before the page was made. Rows that the page has are
      // recognized.
      if (!last) from.searchParams.set("since", `${30 + Math.ceil(performance.now() / 1000)}s`);
      return from;
    },
    received(kind, data) {
      const { callId, id } = kind === "lagged" ? {} : JSON.parse(data);
      const known = (kind === "call" && callId) || (kind === "event" && id);
      if (kind === "error" || known && box.querySelector(`[data-row="${CSS.escape(known)}"]`)) return;
      // The number of skipped events is unknown, but large.
      due += kind === "lagged" ? most : 1;
      arrived();
    },
    opened: () => say("Following"),
    lost: () => say("Connection lost, reconnecting"),
    gone(code) {
      follow.textContent = "Follow";
      say(code === 404 ? "This tool no longer exists" : "You are signed out. Open the page again");
    },
  });

  const press = (/** @type {boolean} */ on) => {
    on ? stream.start() : stream.stop();
    follow.textContent = on ? "Stop" : "Follow";
    if (!on) say("Not following");
  };
  follow.addEventListener("click", () => press(!stream.going));
  newer.addEventListener("click", () => { follow.focus(); look(); });
  for (const event of ["pointerleave", "focusout"]) box.addEventListener(event, () => setTimeout(arrived, 0));
  document.addEventListener("visibilitychange", arrived);
  press(true);
}
