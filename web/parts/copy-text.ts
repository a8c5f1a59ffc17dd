/** Puts a text on the clipboard; also for a page that came without HTTPS from another machine. */
export async function copyText(text: string): Promise<void> {
  const clipboard = navigator.clipboard as Clipboard | undefined;
  if (clipboard) {
    await clipboard.writeText(text);
    return;
  }
  const before = document.activeElement;
  const area = document.createElement("textarea");
  area.value = text;
  // While a dialog is open, nothing beside it can be selected.
  (document.querySelector("dialog[open]") ?? document.body).append(area);
  area.select();
  // oxlint-disable-next-line typescript/no-deprecated -- There is no other way here.
  const isCopied = document.execCommand("copy");
  area.remove();
  if (before instanceof HTMLElement) before.focus();
  if (!isCopied) throw new Error("The browser does not allow this page to copy. Select the text instead.");
}
