// Pays with a browser wallet (EIP-1193), which signs the request on the page once. The signed
// payment is stored in this tab before it is sent, so that a retry after a lost answer uses the same
// payment. Nothing else is signed before it was answered.

/** The Permit2 contract, and the contract that settles up to an amount. */
const PERMIT2 = "0x000000000022D473030F116dDEE9F6B43aC78BA3";
const UPTO_PROXY = "0x4020A4f3b7b90ccA423B9fabCc0CE57C6C240002";

/** Seconds that a payment stays valid beyond the requested time. */
const MARGIN = 600;

/** Storage key of this tool's payment in this tab. */
const place = `payment ${location.pathname}`;

/** @typedef {{ id: string, until: number, fields: [string, string][] }} StoredPayment */

/** @param {[string, string][]} fields */
const struct = (fields) => fields.map(([name, type]) => ({ name, type }));

/** @param {string} text */
const base64 = (text) => btoa(String.fromCharCode(...new TextEncoder().encode(text)));

/**
 * Returns the host's id of a payment.
 * @param {any} accepted
 * @param {string} from
 * @param {string} nonce
 */
async function idOf(accepted, from, nonce) {
  const parts = [accepted.network, accepted.asset.toLowerCase(), from.toLowerCase(), nonce];
  const hash = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(parts.join("\n")));
  return `pmt_${[...new Uint8Array(hash).slice(0, 16)].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

/**
 * Returns the data to sign for an offer, and the payload without its signature.
 * @param {any} accepted
 * @param {string} from
 */
function typed(accepted, from) {
  const chainId = Number(accepted.network.split(":")[1]);
  const until = String(Math.floor(Date.now() / 1000) + Number(accepted.maxTimeoutSeconds) + MARGIN);
  const chance = crypto.getRandomValues(new Uint8Array(32));
  const nonce = `0x${[...chance].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
  const domain = struct([["name", "string"], ["version", "string"], ["chainId", "uint256"], ["verifyingContract", "address"]]);
  if (accepted.scheme === "exact") {
    const authorization = { from, to: accepted.payTo, value: accepted.amount, validAfter: "0", validBefore: until, nonce };
    return {
      signs: {
        types: {
          EIP712Domain: domain,
          TransferWithAuthorization: struct([["from", "address"], ["to", "address"], ["value", "uint256"], ["validAfter", "uint256"], ["validBefore", "uint256"], ["nonce", "bytes32"]]),
        },
        primaryType: "TransferWithAuthorization",
        domain: { name: accepted.extra.name, version: accepted.extra.version, chainId, verifyingContract: accepted.asset },
        message: authorization,
      },
      payload: { authorization },
      nonce,
      until: Number(until),
    };
  }
  const permit = {
    permitted: { token: accepted.asset, amount: accepted.amount },
    spender: UPTO_PROXY,
    nonce: BigInt(nonce).toString(),
    deadline: until,
    witness: { to: accepted.payTo, facilitator: accepted.extra.facilitatorAddress, validAfter: "0" },
  };
  return {
    signs: {
      types: {
        EIP712Domain: domain.filter(({ name }) => name !== "version"),
        PermitWitnessTransferFrom: struct([["permitted", "TokenPermissions"], ["spender", "address"], ["nonce", "uint256"], ["deadline", "uint256"], ["witness", "Witness"]]),
        TokenPermissions: struct([["token", "address"], ["amount", "uint256"]]),
        Witness: struct([["to", "address"], ["facilitator", "address"], ["validAfter", "uint256"]]),
      },
      primaryType: "PermitWitnessTransferFrom",
      domain: { name: "Permit2", chainId, verifyingContract: PERMIT2 },
      message: permit,
    },
    payload: { permit2Authorization: { from, ...permit } },
    nonce: `permit2:${permit.nonce}`,
    until: Number(until),
  };
}

/** @returns {StoredPayment | undefined} */
function recall() {
  try {
    return JSON.parse(sessionStorage.getItem(place) ?? "null") ?? undefined;
  } catch {
    return undefined;
  }
}

/**
 * Forgets a payment that cannot buy anything: it was released, or expired unused. A settled one has
 * an answer to fetch. Returns whether a payment is left.
 */
async function keeps() {
  const stored = recall();
  if (!stored) return false;
  const answer = await fetch(new URL(`../../ai/payments/${encodeURIComponent(stored.id)}`, import.meta.url), { headers: { accept: "application/json" } });
  const state = answer.status === 404 ? "" : (await answer.json()).payment?.state;
  const ended = state === "" ? stored.until * 1000 < Date.now() : ["released", "refused"].includes(state);
  if (ended) sessionStorage.removeItem(place);
  return !ended;
}

/**
 * Lets the wallet sign the form's payment, and keeps it.
 * @param {any} wallet
 * @param {HTMLFormElement} form
 * @param {any} offer
 */
async function sign(wallet, form, { accepted, resource }) {
  const data = new FormData(form);
  for (const name of ["amount", "asset", "network"]) if (data.get(name) !== accepted[name]) throw new Error("the page does not match what is to be signed");
  const [from] = await wallet.request({ method: "eth_requestAccounts" });
  await wallet.request({ method: "wallet_switchEthereumChain", params: [{ chainId: `0x${Number(accepted.network.split(":")[1]).toString(16)}` }] });
  const { signs, payload, nonce, until } = typed(accepted, from);
  const signature = await wallet.request({ method: "eth_signTypedData_v4", params: [from, JSON.stringify(signs)] });
  const id = await idOf(accepted, from, nonce);
  const payment = base64(JSON.stringify({ x402Version: 2, resource, accepted, payload: { signature, ...payload } }));
  data.set("payment", payment);
  const fields = [...data].filter(([name]) => name !== "csrf");
  sessionStorage.setItem(place, JSON.stringify({ id, until, fields }));
  fill(form, recall());
}

/**
 * Fills a stored payment into the form.
 * @param {HTMLFormElement} form
 * @param {StoredPayment | undefined} stored
 */
function fill(form, stored) {
  if (!stored) throw new Error("this tab cannot store the signed payment, so it could be lost");
  for (const [name, value] of stored.fields) {
    const field = form.elements.namedItem(name);
    if (field instanceof HTMLInputElement) field.value = value;
  }
  form.dataset.payment = stored.id;
}

export const wallet = {
  /**
   * Forgets the payment of a form that was answered.
   * @param {HTMLFormElement} form
   */
  answered(form) {
    if (form.closest("[data-wallet]")) sessionStorage.removeItem(place);
  },

  /**
   * Shows the wallet as a way to pay.
   * @param {HTMLElement} section
   * @param {(form: HTMLFormElement) => unknown} call
   */
  begin(section, call) {
    const form = section.querySelector("form");
    const button = section.querySelector("[data-sign]");
    const says = section.querySelector("[data-says]");
    const wallet = /** @type {any} */ (globalThis).ethereum;
    if (!wallet || !form || !(button instanceof HTMLButtonElement) || !says) return;
    const offer = JSON.parse(section.dataset.wallet ?? "{}");
    const label = button.textContent;
    const show = (/** @type {boolean} */ open) => {
      button.textContent = open ? "Send the same payment again · cannot be charged twice" : label;
      if (open) says.textContent = "A payment that you signed in this tab has no answer yet. Nothing else is paid until it has one.";
      const others = [...document.querySelectorAll("main form[data-call]")].filter((other) => other !== form);
      for (const other of others.flatMap((other) => [...other.querySelectorAll("button")])) other.disabled = open;
    };
    section.hidden = false;
    show(recall() !== undefined);
    button.addEventListener("click", async () => {
      button.disabled = true;
      try {
        const open = await keeps();
        show(open);
        if (open) fill(form, recall());
        else await sign(wallet, form, offer);
        call(form);
      } catch (error) {
        says.textContent = `Nothing was sent: ${/** @type {Error} */ (error).message}`;
      } finally {
        button.disabled = false;
      }
    });
  },
};
