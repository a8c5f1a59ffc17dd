/** Has the browser keep a text as a file. */
export function saveText(name: string, text: string): void {
  saveBlob(name, new Blob([text], { type: "text/plain;charset=utf-8" }));
}

/** Has the browser keep bytes as a file. */
export function saveBlob(name: string, blob: Blob): void {
  const url = URL.createObjectURL(blob);
  openDownload(url, name);
  // The browser has taken it up by then.
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** Has the browser keep what is at an address as a file. */
export function openDownload(url: string, name: string): void {
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
}
