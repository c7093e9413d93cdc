// Submits forms without leaving the page, so that typed text stays if the host refuses it.

/** @param {HTMLFormElement} form @param {{code?: string, message?: string, hint?: string, pointer?: string}} error */
function tell(form, error) {
  form.querySelector(":scope > .problem")?.remove();
  for (const field of form.querySelectorAll("[aria-invalid]")) field.removeAttribute("aria-invalid");
  const problem = document.createElement("p");
  problem.className = "problem";
  problem.setAttribute("role", "alert");
  problem.textContent = [error.message ?? "The host did not answer. Try again.", error.hint].filter(Boolean).join(" — ");
  const back = form.elements.namedItem("back");
  if (error.code === "revision_changed" && back instanceof HTMLInputElement) {
    const link = document.createElement("a");
    link.href = new URL(`../..${back.value}`, import.meta.url).href;
    link.textContent = "See what has changed";
    problem.append(" ", link);
  }
  form.prepend(problem);
  const wrong = error.pointer && form.querySelector(`[name$=":${CSS.escape(error.pointer)}"]:not([type=hidden])`);
  if (!(wrong instanceof HTMLElement)) return;
  wrong.setAttribute("aria-invalid", "true");
  wrong.focus();
}

/** @param {HTMLFormElement} form @param {HTMLElement | null} button */
async function send(form, button) {
  const fields = new FormData(form);
  if (button instanceof HTMLButtonElement && button.name) fields.append(button.name, button.value);
  const body = new URLSearchParams();
  for (const [name, value] of fields) if (typeof value === "string") body.append(name, value);
  const action = new URL(form.action);
  action.pathname = action.pathname.replace("/dashboard/do/", "/dashboard/api/do/");
  const answer = await fetch(action, { method: "POST", body });
  if (answer.redirected) return location.assign(answer.url);
  const response = await answer.json();
  // The session has ended. Let the browser submit the form to a page that keeps its fields during
  // sign-in.
  if (answer.status === 401) {
    delete form.dataset.do;
    form.ariaBusy = null;
    return form.requestSubmit(button);
  }
  // In an x402 challenge, `error` is a string.
  if (!answer.ok) return tell(form, typeof response.error === "string" ? { message: response.error } : response.error ?? {});
  const to = new URL(response.to, location.href);
  const stays = to.pathname === location.pathname && to.search === location.search;
  location.assign(to);
  if (stays) location.reload();
}

addEventListener("pageshow", () => {
  for (const form of document.forms) form.ariaBusy = null;
});

document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (!(form instanceof HTMLFormElement) || form.method !== "post") return;
  // A form whose answer is shown once must be sent once, however often the button is pressed. After
  // the reader comes back to the page it can be sent again.
  if (!("do" in form.dataset) && form.action.includes("/dashboard/do/")) {
    if (form.ariaBusy === "true") event.preventDefault();
    form.ariaBusy = "true";
    return;
  }
  // A button with its own `formaction` opens that page.
  if (!("do" in form.dataset) || event.defaultPrevented || event.submitter?.hasAttribute("formaction")) return;
  event.preventDefault();
  if (form.ariaBusy === "true") return;
  form.ariaBusy = "true";
  try {
    await send(form, event.submitter);
  } catch {
    tell(form, {});
  } finally {
    form.ariaBusy = null;
  }
});
