// Verifies a receipt in the browser: its signature with the host's public keys, and that the
// signature covers the shown data.

/** @param {string} text */
const bytes = (text) => Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (char) => char.charCodeAt(0));

/**
 * Sorts the fields of a value.
 * @param {any} value
 * @returns {any}
 */
const ordered = (value) =>
  value === null || typeof value !== "object" ? value
    : Array.isArray(value) ? value.map(ordered)
      : Object.fromEntries(Object.keys(value).sort().map((name) => [name, ordered(value[name])]));

/** @param {any} a @param {any} b */
const same = (a, b) => JSON.stringify(ordered(a)) === JSON.stringify(ordered(b));

/** @param {string} path */
async function json(path) {
  const answer = await fetch(new URL(`../..${path}`, import.meta.url), { headers: { accept: "application/json" } });
  if (!answer.ok) throw new Error(`${path} answered ${answer.status}`);
  return answer.json();
}

/**
 * Verifies a receipt. Returns the result and a text.
 * @param {string} path
 * @returns {Promise<[boolean | undefined, string]>}
 */
async function check(path) {
  const { receipt: { signature, ...record } } = await json(path);
  const { keys } = await json("/.well-known/jwks.json");
  const [head, payload, signed] = signature.split(".");
  const { alg, kid, crit } = JSON.parse(new TextDecoder().decode(bytes(head)));
  if (alg !== "EdDSA" || crit) return [false, "The signature has the wrong type for a receipt."];
  const signedRecord = JSON.parse(new TextDecoder().decode(bytes(payload)));
  if (!same(signedRecord, record)) return [false, "The signature belongs to another receipt."];
  for (const key of keys.filter((/** @type {any} */ key) => !kid || !key.kid || key.kid === kid)) {
    const { kty, crv, x } = key;
    const known = await crypto.subtle.importKey("jwk", { kty, crv, x }, { name: "Ed25519" }, false, ["verify"]);
    if (await crypto.subtle.verify({ name: "Ed25519" }, known, bytes(signed), new TextEncoder().encode(`${head}.${payload}`))) {
      return [true, "Verified by your browser: this host signed exactly this receipt."];
    }
  }
  return [false, "The signature was not made with a key of this host."];
}

const slip = document.querySelector("[data-receipt]");
const outcome = slip?.querySelector("[data-check] p");
if (slip instanceof HTMLElement && outcome) {
  const tell = (/** @type {boolean | undefined} */ holds, /** @type {string} */ words) => {
    outcome.className = holds ? "state ok" : holds === false ? "state bad" : "state warn";
    outcome.textContent = `${holds ? "✓" : holds === false ? "✕" : "?"} ${words}`;
  };
  if (!globalThis.crypto?.subtle) {
    tell(undefined, "Browsers verify signatures only over https or on this machine. Use the command below.");
  } else {
    check(slip.dataset.receipt ?? "").then(
      ([holds, words]) => tell(holds, words),
      (error) => tell(undefined, `Your browser could not verify the signature (${error.message}). Use the command below.`),
    );
  }
}
