// Shows while a value is typed whether it is long enough to be hidden in output.

const note = document.querySelector("#short");
const usual = note?.textContent ?? "";
for (const element of document.querySelectorAll("[data-hidden-from]")) {
  const field = /** @type {HTMLInputElement} */ (element);
  const least = Number(field.dataset.hiddenFrom);
  field.addEventListener("input", () => {
    const bytes = new TextEncoder().encode(field.value).length;
    const short = bytes > 0 && bytes < least;
    if (!note) return;
    note.classList.toggle("warn", short);
    const text = short ? `This value has fewer than ${least} bytes: it would not be hidden in results, errors and logs.` : usual;
    if (note.textContent !== text) note.textContent = text;
  });
}
