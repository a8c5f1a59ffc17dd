const terminal = process.stderr.isTTY;

/** Says on stderr what goes on now: one line that is rewritten on a terminal, a line each elsewhere. */
export function progress(text: string): void {
  process.stderr.write(terminal ? `\r\u001b[K${text.slice(0, process.stderr.columns - 1)}` : `${text}\n`);
}

/** Clears the line before something that stays is printed. */
export function clearProgress(): void {
  if (terminal) process.stderr.write("\r\u001b[K");
}
