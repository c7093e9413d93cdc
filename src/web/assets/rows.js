// Shows what happens at the top of a list while it is looked at: the host tells that something has, and its page has the rows.

import { showTimes } from "./site.js";
import { Stream } from "./stream.js";

const PACE = 1500;
const MOST_ROWS = 200;

const box = /** @type {HTMLElement | null} */ (document.querySelector("#rows"));

if (box?.dataset.live) {
  const live = box.dataset.live;
  const follow = /** @type {HTMLButtonElement} */ (document.querySelector("#follow"));
  const newer = /** @type {HTMLButtonElement} */ (document.querySelector("#newer"));
  const status = /** @type {HTMLElement} */ (document.querySelector("#following"));
  let looking = false;
  let due = false;
  let dropped = 0;

  /** @param {string} words */
  const say = (words) => { if (status.textContent !== words) status.textContent = words; };

  /** The page as it is now. It is made where all pages are, so that what others wrote stays text here too. @returns {Promise<Document>} */
  const page = () => new Promise((done, failed) => {
    const asked = new XMLHttpRequest();
    asked.open("GET", location.href);
    asked.responseType = "document";
    asked.onload = () => (asked.status === 200 && asked.responseXML ? done(asked.responseXML) : failed(new Error(`the host answered ${asked.status}`)));
    asked.onerror = () => failed(new Error("the host does not answer"));
    asked.send();
  });

  /** @param {HTMLTableRowElement} row */
  const name = (row) => row.querySelector("[data-row]")?.getAttribute("data-row");

  /** A row without cells of its own. @param {number} columns @param {string} words */
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

  /** Puts the rows of a page that are not here on top. @param {Document} fresh */
  function merge(fresh) {
    const theirs = fresh.querySelector("#rows");
    const sums = fresh.querySelector("#sums");
    if (sums) document.querySelector("#sums")?.replaceChildren(...sums.childNodes);
    const [rows, added] = [box?.querySelector("tbody"), theirs?.querySelector("tbody")];
    if (!theirs || !box || !added) return;
    if (!rows) return box.replaceChildren(...theirs.childNodes);
    const known = new Set([...rows.rows].map(name));
    const more = [...added.rows].filter((row) => !known.has(name(row)));
    const columns = added.rows[0]?.cells.length ?? 1;
    // Nothing of the page is known: more has happened than it shows.
    const gap = more.length === added.rows.length && rows.rows.length ? [note(columns, "More has happened here than is shown")] : [];
    rows.prepend(...more, ...gap);
    const over = rows.rows.length - MOST_ROWS;
    if (over <= 0) return;
    const left = [...rows.rows].slice(-over);
    dropped += left.filter((row) => name(row)).length;
    left.forEach((row) => row.remove());
    rows.append(note(columns, `${dropped} earlier rows are not on this page any more`));
  }

  async function look() {
    if (looking || !due) return;
    [looking, due] = [true, false];
    newer.hidden = true;
    try {
      merge(await page());
      showTimes();
      if (stream.going) say("Following");
    } catch (error) {
      due = true;
      say(`The last rows are not to be had: ${/** @type {Error} */ (error).message}`);
    }
    setTimeout(() => { looking = false; arrived(); }, PACE);
  }

  /** Nobody's row moves away from under their pointer, or their keys. */
  const held = () => box.matches(":hover, :focus-within");

  function arrived() {
    if (!due || looking) return;
    if (!held() && !document.hidden) return look();
    newer.hidden = false;
  }

  const stream = new Stream({
    from(last) {
      const from = new URL(live, location.href);
      // Where nothing was told yet: from a moment before the page was made, which is told again and known.
      if (!last) from.searchParams.set("since", `${30 + Math.ceil(performance.now() / 1000)}s`);
      return from;
    },
    told(kind, data) {
      const { callId, id } = kind === "lagged" ? {} : JSON.parse(data);
      const known = (kind === "call" && callId) || (kind === "event" && id);
      if (kind === "error" || known && box.querySelector(`[data-row="${CSS.escape(known)}"]`)) return;
      due = true;
      arrived();
    },
    opened: () => say("Following"),
    lost: () => say("Connection lost, asking again"),
    gone(code) {
      follow.setAttribute("aria-pressed", "false");
      say(code === 404 ? "It is not there any more" : "You are not signed in any more: open the page again");
    },
  });

  const press = (/** @type {boolean} */ on) => {
    on ? stream.start() : stream.stop();
    follow.setAttribute("aria-pressed", String(on));
    if (!on) say("Not following");
  };
  follow.addEventListener("click", () => press(!stream.going));
  newer.addEventListener("click", () => { follow.focus(); look(); });
  for (const event of ["pointerleave", "focusout"]) box.addEventListener(event, () => setTimeout(arrived, 0));
  document.addEventListener("visibilitychange", arrived);
  press(true);
}
