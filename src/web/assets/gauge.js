// Updates the numbers of a page every few seconds while it is visible. Each is a JSON pointer into
// the host's health. A list of rows is fetched from its page again.

import { held, part } from "./site.js";

const EVERY = 5000;

const gauges = /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-gauge]"));
const list = /** @type {HTMLElement | null} */ (document.querySelector("#rows"));
const statusLine = document.querySelector("[data-gauge-said]");
const pause = document.querySelector("[data-gauge-pause]");
let paused = false;

/** @param {string} words */
const say = (words) => { if (statusLine && statusLine.textContent !== words) statusLine.textContent = words; };

/**
 * Resolves a JSON pointer.
 * @param {any} value
 * @param {string} pointer
 */
const at = (value, pointer) => pointer.split("/").slice(1).reduce((/** @type {any} */ of, name) => of?.[name], value);

/** Replaces the list with its current state, and keeps its scroll position. */
async function renew() {
  if (!list?.dataset.rows || held(list)) return;
  const fresh = (await part(new URL(list.dataset.rows, location.href))).querySelector("#rows");
  if (!fresh || paused || held(list)) return;
  const left = list.querySelector(".scroll")?.scrollLeft ?? 0;
  list.replaceChildren(...fresh.childNodes);
  list.querySelector(".scroll")?.scrollTo({ left });
}

async function look() {
  if (paused || document.hidden) return;
  try {
    const answer = await fetch(new URL("../../health", import.meta.url), { headers: { accept: "application/json" } });
    if (!answer.ok) throw new Error(`the host answered ${answer.status}`);
    const health = await answer.json();
    for (const gauge of gauges) {
      const now = String(at(health, gauge.dataset.gauge ?? "") ?? "?");
      if (gauge.textContent !== now) gauge.textContent = now;
    }
    await renew();
    if (!paused) say("Updated every 5 seconds.");
  } catch (error) {
    say(`The host does not answer (${/** @type {Error} */ (error).message}). These are the last numbers.`);
  }
}

pause?.addEventListener("click", () => {
  paused = !paused;
  pause.textContent = paused ? "Resume" : "Pause";
  say(paused ? "Paused." : "");
  look();
});
document.addEventListener("visibilitychange", look);
setInterval(look, EVERY);
