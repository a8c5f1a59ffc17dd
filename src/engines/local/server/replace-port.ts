/** Where a server of this machine listens: nobody but the service needs to reach it. */
const LOOPBACK = "127.0.0.1";
/** What stands for every address of the machine. */
const EVERY_HOST = new Set(["", "0.0.0.0", "::", "[::]", "*"]);
const PORT_OPTIONS = new Set(["--port", "-p"]);
const BIND_OPTIONS = new Set(["--bind", "-b"]);
const HOST_OPTION = "--host";
const PORT_VARIABLE = /\$(?:PORT\b|\{PORT\})/g;
const HOST_AND_PORT = /^(\[[0-9a-fA-F:]*\]|[A-Za-z0-9.*_-]*):(\d{1,5})$/;

/**
 * A server's command with the replica's own port in place of the one that its author wrote, and with this machine
 * alone in place of all its addresses: on those, anybody could call the server without a token.
 */
export function withPort(entrypoint: readonly string[], authored: number, port: number): string[] {
  let before = "";
  return entrypoint.map((word, index) => {
    const option = before;
    before = word;
    // The program itself.
    if (index === 0) return word;
    return replaced(word, option, authored, port);
  });
}

function replaced(word: string, option: string, authored: number, port: number): string {
  const text = word.replace(PORT_VARIABLE, String(port));
  if (PORT_OPTIONS.has(option) && isPort(text, option === "--port" ? null : authored)) return String(port);
  if (option === HOST_OPTION && EVERY_HOST.has(text)) return LOOPBACK;
  const mark = text.indexOf("=");
  if (text.startsWith("--") && mark !== -1) {
    const name = text.slice(0, mark);
    return `${name}=${replaced(text.slice(mark + 1), name, authored, port)}`;
  }
  const bound = HOST_AND_PORT.exec(text);
  if (!bound) return text;
  const [, host = "", number = ""] = bound;
  if (!isPort(number, BIND_OPTIONS.has(option) ? null : authored) && Number(number) !== port) return text;
  return `${EVERY_HOST.has(host) ? LOOPBACK : host}:${port}`;
}

/** Whether it is that port; with null, whether it is any. */
function isPort(text: string, port: number | null): boolean {
  if (!/^\d{1,5}$/.test(text)) return false;
  return port === null || Number(text) === port;
}
