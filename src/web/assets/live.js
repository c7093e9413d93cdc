// Follows a log: new lines appear below the existing ones. Gaps are always marked, the page has a
// maximum size, and it stays responsive: each frame adds a few rows, and distant rows have no
// layout.

import { Stream } from "./stream.js";

const MOST_ROWS = 2000;
/** Maximum lines that wait to be drawn. */
const MOST_BEHIND = 10_000;
/**
 * Rows per list. The page consists of many lists, so that the oldest can be removed as a whole and
 * distant ones need no layout.
 */
const LIST = 25;
/** Maximum rows and milliseconds of row creation for each frame. */
const FRAME = 100;
const MAKES = 5;
/** A scroll position below any log. */
const END = 1e7;

/** Texts of rows for missing lines. */
const [MISSED, LEFT_OUT] = ["lines were missed", "lines omitted"];

/** @typedef {{ at: string, level: string, message: string, fields: Record<string, unknown>, callId: string | null, owner?: boolean }} Entry */

const box = /** @type {HTMLElement | null} */ (document.querySelector("#log"));
const first = box?.querySelector("ol.lines");

/**
 * Converts ASCII letters to lowercase, as the host compares them.
 * @param {string} text
 */
const folded = (text) => text.replace(/[A-Z]/g, (letter) => letter.toLowerCase());

/** Invisible characters, except line breaks. */
const UNSEEN = /((?![\t\n\r])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\ufe00-\ufe0f\uffa0])/u;

/**
 * Returns a text in which every character is visible.
 * @param {string} text
 * @returns {string | Node}
 */
function seen(text) {
  // Most texts contain no characters that need treatment.
  if (text.length <= 2000 && /^[ -~]*$/.test(text)) return text;
  const whole = document.createElement("bdi");
  let named = 0;
  for (const [place, piece] of text.slice(0, 2000).split(UNSEEN).entries()) {
    // Odd entries are the separators.
    if (place % 2 === 0) { whole.append(piece); continue; }
    if (named++ >= 8) { whole.append("\ufffd"); continue; }
    const name = document.createElement("span");
    name.className = "odd";
    name.textContent = `U+${(piece.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;
    whole.append(name);
  }
  if (text.length > 2000) whole.append(`… ${text.length - 2000} more characters`);
  return whole;
}

/** @param {string} name @param {string} className @param {(string | Node)[]} inside */
function made(name, className, ...inside) {
  const element = document.createElement(name);
  element.className = className;
  element.append(...inside);
  return element;
}

/** @type {Record<string, [string, string]>} */
const LEVELS = { error: ["state bad", "✕"], warn: ["state warn", "!"], info: ["state", "·"], debug: ["state", "·"] };
const local = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

function inUtc() {
  try { return localStorage.getItem("times") === "utc"; } catch { return false; }
}

/** The last formatted second, because most lines share it with the line before. */
let second = "";
let inWords = "";

/** @param {string} at */
function localTime(at) {
  if (at.slice(0, 19) !== second) [second, inWords] = [at.slice(0, 19), local.format(new Date(at))];
  return inWords;
}

/** @param {Entry} entry @param {boolean} utc whether times are in UTC */
function row(entry, utc) {
  const line = document.createElement("li");
  line.dataset.level = entry.level;
  line.dataset.at = entry.at;
  line.tabIndex = -1;
  const time = document.createElement("time");
  time.dateTime = entry.at;
  time.dataset.utc = `${entry.at.slice(0, 10)} ${entry.at.slice(11, 19)} UTC`;
  time.textContent = utc ? time.dataset.utc : localTime(entry.at);
  const [className, sign] = LEVELS[entry.level] ?? LEVELS.info;
  const shown = made("span", "", sign);
  shown.ariaHidden = "true";
  line.append(time, " ", made("span", className, shown, ` ${entry.level}`), " ");
  if (entry.callId) {
    line.dataset.call = entry.callId;
    const call = document.createElement("a");
    call.className = "call";
    call.href = `?${new URLSearchParams({ callId: entry.callId })}`;
    call.append(seen(entry.callId));
    line.append(call, " ");
  }
  if (entry.owner) line.append(made("span", "muted", "owner"), " ");
  line.append(made("span", "said", seen(entry.message)));
  const fields = Object.keys(entry.fields ?? {}).length ? JSON.stringify(entry.fields) : "";
  if (fields) line.append(" ", made("details", "", made("summary", "", "fields"), made("code", "", seen(fields))));
  return line;
}

/** An event of the log, or a note between its lines: a number of missing lines, or a text. */
/** @typedef {{ entry: Entry, id: string }} Line */
/** @typedef {{ missing: number, words: string, before: string }} Gap */
/** @typedef {Line | Gap | { words: string }} LogItem */

/** @param {HTMLElement} box @param {Element} first the list that the page came with @param {string} live the stream of its lines */
function follows(box, first, live) {
  const sought = folded(box.dataset.q ?? "");
  const follow = /** @type {HTMLButtonElement} */ (document.querySelector("#follow"));
  const newer = /** @type {HTMLButtonElement} */ (document.querySelector("#newer"));
  const status = /** @type {HTMLElement} */ (document.querySelector("#following"));
  const aloud = /** @type {HTMLInputElement} */ (document.querySelector("#aloud"));

  /**
   * Lines that the page came with. The stream repeats the last of them.
   * @type {Map<string, number>}
   */
  const came = new Map();
  let oldest = "";
  for (const line of /** @type {NodeListOf<HTMLElement>} */ (first.querySelectorAll("li"))) {
    const key = `${line.dataset.at} ${line.dataset.level} ${line.dataset.call ?? ""}`;
    came.set(key, (came.get(key) ?? 0) + 1);
    oldest ||= line.dataset.at ?? "";
    line.tabIndex = -1;
  }

  /** The list that gets new rows, and the number of rows in all lists. */
  let list = first;
  let rows = first.children.length;
  /** Id of the last line on the page, for requests of the lines after it. */
  let shown = "";
  let hidden = 0;
  let dropped = 0;
  /**
   * Received events that are not on the page yet.
   * @type {LogItem[]}
   */
  let held = [];
  let drawing = false;

  const atEnd = () => box.scrollHeight - box.scrollTop - box.clientHeight < 40;
  let stays = true;

  function tellStatus(words = stream.going ? "Following" : "Not following") {
    const summary = hidden ? `${words}; ${counted(hidden)} hidden by the search` : words;
    if (status.textContent !== summary) status.textContent = summary;
  }

  /** @param {number} count */
  const counted = (count) => `${count} ${count === 1 ? "line" : "lines"}`;

  /**
   * Returns how many lines an event stands for.
   * @param {LogItem} item
   */
  const lines = (item) => ("entry" in item ? 1 : "missing" in item ? item.missing : 0);

  /**
   * Makes room for rows by removing the oldest lists, and shows how many lines were removed.
   * @param {number} more
   */
  function makeRoom(more) {
    if (rows + more <= MOST_ROWS) return;
    const old = /** @type {HTMLElement[]} */ ([...box.querySelectorAll(":scope > ol")]);
    for (const gone of old) {
      if (rows + more <= MOST_ROWS || gone === list) break;
      for (const line of /** @type {HTMLCollectionOf<HTMLElement>} */ (gone.children)) dropped += line.dataset.at ? 1 : Number(line.dataset.missing ?? 0);
      rows -= gone.children.length;
      if (gone.contains(document.activeElement)) box.focus({ preventScroll: true });
      gone.remove();
    }
    earlier();
  }

  function earlier() {
    const notice = box.querySelector(".earlier") ?? made("p", "gap earlier", "", way("open the log again"));
    if (!notice.parentElement) box.prepend(notice);
    notice.firstChild?.replaceWith(`${dropped} earlier lines are no longer on this page · `);
  }

  function draw() {
    drawing = false;
    if (!held.length) return;
    if (!stays) {
      newer.hidden = false;
      newer.textContent = `${held.reduce((sum, item) => sum + lines(item), 0)} new lines`;
      return;
    }
    document.querySelector("#nothing")?.remove();
    const [utc, until] = [inUtc(), performance.now() + MAKES];
    const ready = [];
    for (const item of held) {
      if (ready.length === FRAME || performance.now() > until) break;
      ready.push("entry" in item ? row(item.entry, utc) : "missing" in item ? gap(item) : made("li", "gap", item.words));
      if ("entry" in item) shown = item.id;
    }
    held.splice(0, ready.length);
    makeRoom(ready.length);
    for (const line of ready) {
      if (list.children.length >= LIST) {
        list.previousElementSibling?.classList.add("far");
        list = made("ol", "lines");
        box.append(list);
      }
      list.append(line);
    }
    rows += ready.length;
    newer.hidden = true;
    box.scrollTop = END;
    tellStatus();
    if (held.length) soon();
  }

  /** Draws in the next frame. A hidden page has no frames, and waits. */
  function soon() {
    if (!drawing) requestAnimationFrame(draw);
    drawing = true;
  }

  /** @param {LogItem} item */
  function put(item) {
    held.push(item);
    if (held.length > (stays ? MOST_BEHIND : MOST_ROWS)) leaveOut();
    soon();
  }

  /**
   * Too many events wait, for example while the reader has scrolled up. Replaces the oldest with a
   * note.
   */
  function leaveOut() {
    const [oldest] = held;
    /** @type {Gap} */
    const out = "missing" in oldest && oldest.words === LEFT_OUT ? oldest : { missing: 0, words: LEFT_OUT, before: shown };
    if (out !== oldest) held.unshift(out);
    for (const item of held.splice(1, LIST)) out.missing += lines(item);
  }

  /**
   * Returns a link to the log's page.
   * @param {string} words
   */
  function way(words) {
    const link = document.createElement("a");
    link.href = box.dataset.page ?? "";
    link.textContent = words;
    return link;
  }

  /**
   * Returns a row for missing lines, with a link that loads them.
   * @param {Gap} item
   */
  function gap({ missing, words, before }) {
    const load = way("load them");
    const line = made("li", "gap", `${missing} ${words} · `, load);
    line.dataset.missing = String(missing);
    load.addEventListener("click", (event) => {
      if (!before) return;
      event.preventDefault();
      // The host sends everything after the gap again, in order, with the missing lines.
      held = [];
      list = /** @type {HTMLElement} */ (line.parentElement);
      while (list.nextSibling) list.nextSibling.remove();
      while (line.nextSibling) line.nextSibling.remove();
      line.remove();
      rows = box.querySelectorAll("li").length;
      [stream.last, shown, stays] = [before, before, true];
      restart();
    });
    return line;
  }

  /** @param {Entry} entry @param {string} id */
  function receive(entry, id) {
    const says = !sought || folded(entry.message).includes(sought) || folded(JSON.stringify(entry.fields ?? {})).includes(sought);
    if (!says) { hidden++; return; }
    const key = `${entry.at} ${entry.level} ${entry.callId ?? ""}`;
    const again = came.get(key) ?? 0;
    if (again) { came.set(key, again - 1); return; }
    // Older than this page: it is on the next page.
    if (box.dataset.more !== undefined && entry.at <= oldest) return;
    put({ entry, id });
  }

  const stream = new Stream({
    from(last) {
      const from = new URL(live, location.href);
      // Nothing received yet: start from before the page was made. Lines that the page has are
      // recognized.
      if (!last) from.searchParams.set("since", `${30 + Math.ceil(performance.now() / 1000)}s`);
      return from;
    },
    received(name, data, id) {
      if (name === "log") receive(JSON.parse(data), id);
      else if (name === "lagged") put({ missing: JSON.parse(data).missed, words: MISSED, before: stream.last });
    },
    opened(lost) {
      if (lost) put({ words: `reconnected after ${(lost / 1000).toFixed(1)} s, nothing missed` });
      tellStatus();
    },
    lost: () => tellStatus("Connection lost, reconnecting"),
    gone(status) {
      follow.textContent = "Follow";
      tellStatus(status === 404 ? "This tool no longer exists" : "You are signed out. Open the page again");
    },
  });

  function restart() {
    follow.textContent = "Stop";
    stream.start();
  }

  function toggle() {
    if (stream.going) {
      stream.stop();
      follow.textContent = "Follow";
    } else {
      restart();
    }
    tellStatus();
  }

  box.addEventListener("scroll", () => {
    stays = atEnd();
    if (stays && held.length) soon();
  });
  newer.addEventListener("click", () => {
    stays = true;
    box.scrollTop = END;
    soon();
    box.focus();
  });
  follow.addEventListener("click", toggle);
  aloud.addEventListener("change", () => { box.ariaLive = aloud.checked ? "polite" : "off"; });

  box.scrollTop = END;
  restart();
}

if (box && first && box.dataset.live !== undefined) follows(box, first, box.dataset.live);

if (box) {
  // Copied text contains time, level and call of each line.
  box.addEventListener("copy", (event) => {
    const chosen = getSelection();
    const lines = /** @type {HTMLElement[]} */ ([...box.querySelectorAll("li[data-at]")]).filter((line) => chosen?.containsNode(line, true));
    if (!event.clipboardData || lines.length < 2) return;
    event.preventDefault();
    const text = lines.map((line) => {
      const fields = line.querySelector("details code")?.textContent ?? "";
      const message = line.querySelector(".said")?.textContent ?? "";
      return `[${line.dataset.at}] [${line.dataset.level}] [${line.dataset.call ?? "-"}] ${message}${fields ? ` ${fields}` : ""}`;
    });
    event.clipboardData.setData("text/plain", text.join("\n"));
  });
}
