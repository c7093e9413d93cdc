// Follows a log: what the host tells is put below what is there. A gap is never left without a word, and the page never grows without end.

import { Stream } from "./stream.js";

const MOST_ROWS = 2000;

/** @typedef {{ at: string, level: string, message: string, fields: Record<string, unknown>, callId: string | null, owner?: boolean }} Entry */

const box = /** @type {HTMLElement | null} */ (document.querySelector("#log"));
const list = box?.querySelector("ol.lines");

/** Letters of ASCII in one case, as the host compares them. @param {string} text */
const folded = (text) => text.replace(/[A-Z]/g, (letter) => letter.toLowerCase());

/** A text in which everything can be seen. @param {string} text */
function seen(text) {
  const whole = document.createElement("bdi");
  let named = 0;
  for (const piece of text.slice(0, 2000).split(/([\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\ufe00-\ufe0f\uffa0])/u)) {
    const odd = piece && !"\t\n\r".includes(piece) && /^[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\ufe00-\ufe0f\uffa0]$/u.test(piece);
    if (!odd) { whole.append(piece); continue; }
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

/** @param {Entry} entry */
function row(entry) {
  const line = document.createElement("li");
  line.dataset.level = entry.level;
  line.dataset.at = entry.at;
  line.tabIndex = -1;
  const time = document.createElement("time");
  const utc = `${entry.at.slice(0, 10)} ${entry.at.slice(11, 19)} UTC`;
  time.dateTime = entry.at;
  time.dataset.utc = utc;
  time.textContent = inUtc() ? utc : local.format(new Date(entry.at));
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

if (box && list && box.dataset.live !== undefined) {
  const live = box.dataset.live;
  const sought = folded(box.dataset.q ?? "");
  const follow = /** @type {HTMLButtonElement} */ (document.querySelector("#follow"));
  const newer = /** @type {HTMLButtonElement} */ (document.querySelector("#newer"));
  const status = /** @type {HTMLElement} */ (document.querySelector("#following"));
  const aloud = /** @type {HTMLInputElement} */ (document.querySelector("#aloud"));

  /** Lines that the page came with, by what tells them apart: the stream tells the last of them again. @type {Map<string, number>} */
  const came = new Map();
  let oldest = "";
  for (const line of /** @type {NodeListOf<HTMLElement>} */ (list.querySelectorAll("li"))) {
    const key = `${line.dataset.at} ${line.dataset.level} ${line.dataset.call ?? ""}`;
    came.set(key, (came.get(key) ?? 0) + 1);
    oldest ||= line.dataset.at ?? "";
    line.tabIndex = -1;
  }

  let hidden = 0;
  let dropped = 0;
  /** Told, and not on the page yet. @type {HTMLElement[]} */
  let held = [];
  /** How many of these were left out. */
  let left = 0;
  /** Where each line is, for who asks what came behind it. @type {WeakMap<HTMLElement, string>} */
  const ids = new WeakMap();
  let drawing = false;

  const atEnd = () => box.scrollHeight - box.scrollTop - box.clientHeight < 40;
  let stays = true;

  function tellStatus(words = stream.going ? "Following" : "Not following") {
    const told = hidden ? `${words}; ${hidden} lines hidden by the words` : words;
    if (status.textContent !== told) status.textContent = told;
  }

  /** Rows beyond the most there may be go, the oldest first, and that is said in their place. */
  function trim() {
    let over = list ? list.children.length - MOST_ROWS : 0;
    if (!list || over <= 0) return;
    const earlier = list.querySelector(".earlier") ?? made("li", "gap earlier");
    if (earlier.parentElement !== list) list.prepend(earlier);
    for (; over > 0 && list.children.length > 1; over--) {
      const gone = /** @type {HTMLElement} */ (list.children[1]);
      dropped += gone.dataset.at ? 1 : Number(gone.dataset.missing ?? 0);
      gone.remove();
    }
    const link = document.createElement("a");
    link.href = box?.dataset.page ?? "";
    link.textContent = "open the log again";
    earlier.replaceChildren(`${dropped} earlier lines are not on this page any more · `, link);
  }

  function draw() {
    drawing = false;
    if (!list || !held.length) return;
    if (!stays) {
      newer.hidden = false;
      newer.textContent = `${held.filter((line) => line.dataset.at).length + left} new lines`;
      return;
    }
    document.querySelector("#nothing")?.remove();
    list.append(...held);
    [held, left] = [[], 0];
    newer.hidden = true;
    trim();
    if (box) box.scrollTop = box.scrollHeight;
    tellStatus();
  }

  /** @param {HTMLElement} line */
  function put(line) {
    held.push(line);
    if (held.length > MOST_ROWS) leaveOut();
    if (drawing) return;
    drawing = true;
    // A page that is not seen draws nothing by frames.
    document.hidden ? setTimeout(draw, 200) : requestAnimationFrame(draw);
  }

  /** More waits than the page would hold while somebody reads further up: the oldest of it is left out, and that is said. */
  function leaveOut() {
    if (!held[0].classList.contains("left-out")) {
      const shown = /** @type {HTMLElement | null} */ (list?.lastElementChild ?? null);
      held.unshift(gap("", (shown && ids.get(shown)) ?? ""));
      held[0].classList.add("left-out");
      left = 0;
    }
    held.splice(1, 1);
    left++;
    held[0].dataset.missing = String(left);
    held[0].firstChild?.replaceWith(`${left} lines are left out here · `);
  }

  /** @param {number} missed */
  function lagged(missed) {
    const line = gap(`${missed} lines were missed · `, stream.last);
    line.dataset.missing = String(missed);
    put(line);
  }

  /** A row that says what is missing, with the way to it. @param {string} words @param {string} before */
  function gap(words, before) {
    const line = made("li", "gap", words);
    const load = document.createElement("a");
    load.href = box?.dataset.page ?? "";
    load.textContent = "load them";
    load.addEventListener("click", (event) => {
      if (!before) return;
      event.preventDefault();
      // All that came behind the gap is told again, in its order, with what is missing.
      held = [];
      while (line.nextSibling) line.nextSibling.remove();
      line.remove();
      stream.last = before;
      stays = true;
      restart();
    });
    line.append(load);
    return line;
  }

  /** @param {Entry} entry @param {string} id */
  function told(entry, id) {
    const says = !sought || folded(entry.message).includes(sought) || folded(JSON.stringify(entry.fields ?? {})).includes(sought);
    if (!says) { hidden++; return; }
    const key = `${entry.at} ${entry.level} ${entry.callId ?? ""}`;
    const again = came.get(key) ?? 0;
    if (again) { came.set(key, again - 1); return; }
    // Older than the page: it is on the next one.
    if (box?.dataset.more !== undefined && entry.at <= oldest) return;
    const line = row(entry);
    ids.set(line, id);
    put(line);
  }

  const stream = new Stream({
    from(last) {
      const from = new URL(live, location.href);
      // Where nothing was told yet: from a moment before the page was made, which is told again and known.
      if (!last) from.searchParams.set("since", `${30 + Math.ceil(performance.now() / 1000)}s`);
      return from;
    },
    told(name, data, id) {
      if (name === "log") told(JSON.parse(data), id);
      else if (name === "lagged") lagged(JSON.parse(data).missed);
    },
    opened(lost) {
      if (lost) put(made("li", "gap", `connection lost, back after ${(lost / 1000).toFixed(1)} s, nothing missed`));
      tellStatus();
    },
    lost: () => tellStatus("Connection lost, asking again"),
    gone(status) {
      follow.setAttribute("aria-pressed", "false");
      tellStatus(status === 404 ? "It is not there any more" : "You are not signed in any more: open the page again");
    },
  });

  function restart() {
    follow.setAttribute("aria-pressed", "true");
    stream.start();
  }

  function toggle() {
    if (stream.going) {
      stream.stop();
      follow.setAttribute("aria-pressed", "false");
    } else {
      restart();
    }
    tellStatus();
  }

  box.addEventListener("scroll", () => {
    stays = atEnd();
    if (stays) draw();
  });
  newer.addEventListener("click", () => {
    stays = true;
    draw();
    box.scrollTop = box.scrollHeight;
    box.focus();
  });
  follow.addEventListener("click", toggle);
  aloud.addEventListener("change", () => { box.ariaLive = aloud.checked ? "polite" : "off"; });

  box.scrollTop = box.scrollHeight;
  restart();
  addEventListener("keydown", (pressed) => {
    if (pressed.key === "f" && heard(pressed)) toggle();
  });
}

/** Whether a key is meant for the page. @param {KeyboardEvent} pressed */
function heard(pressed) {
  const into = /** @type {HTMLElement} */ (pressed.target);
  const typing = into.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(into.tagName);
  let off = false;
  try { off = localStorage.getItem("keys") === "off"; } catch { /* on */ }
  return !typing && !off && !pressed.ctrlKey && !pressed.metaKey && !pressed.altKey;
}

if (box && list) {
  addEventListener("keydown", (pressed) => {
    if (!["e", "E"].includes(pressed.key) || !heard(pressed)) return;
    const errors = /** @type {HTMLElement[]} */ ([...list.querySelectorAll("li[data-level=error]")]);
    const here = document.activeElement?.closest("#log li");
    const place = (/** @type {HTMLElement} */ line) => (here ? line.compareDocumentPosition(here) : Node.DOCUMENT_POSITION_FOLLOWING);
    const next = pressed.key === "e"
      ? (here ? errors.find((line) => place(line) & Node.DOCUMENT_POSITION_PRECEDING) : errors[0])
      : (here ? errors.findLast((line) => place(line) & Node.DOCUMENT_POSITION_FOLLOWING) : errors.at(-1));
    if (!next) return;
    next.tabIndex = -1;
    next.focus();
    next.scrollIntoView({ block: "center" });
  });

  // What is copied says when, how grave and of which call.
  box.addEventListener("copy", (event) => {
    const chosen = getSelection();
    const lines = /** @type {HTMLElement[]} */ ([...list.querySelectorAll("li[data-at]")]).filter((line) => chosen?.containsNode(line, true));
    if (!event.clipboardData || lines.length < 2) return;
    event.preventDefault();
    const text = lines.map((line) => {
      const fields = line.querySelector("details code")?.textContent ?? "";
      const said = line.querySelector(".said")?.textContent ?? "";
      return `[${line.dataset.at}] [${line.dataset.level}] [${line.dataset.call ?? "-"}] ${said}${fields ? ` ${fields}` : ""}`;
    });
    event.clipboardData.setData("text/plain", text.join("\n"));
  });
}
