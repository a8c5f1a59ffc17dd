import { MILLRACE, run } from "../../support/command-line.ts";
import type { Client } from "./client.ts";

/** What is typed once something is on the screen. */
export type Step = { readonly when: string; readonly type: string };

/** Runs a program in a terminal of its own: types what the steps say, and prints all that came to the screen. */
const DRIVER = `
import fcntl, json, os, pty, select, struct, sys, termios, time
argv, steps, columns = json.loads(sys.argv[1])
pid, terminal = pty.fork()
if pid == 0:
    os.environ["TERM"] = "xterm-256color"
    os.execv(argv[0], argv)
fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
screen, deadline = b"", time.monotonic() + 30
while time.monotonic() < deadline:
    if steps and steps[0]["when"].encode() in screen:
        os.write(terminal, steps.pop(0)["type"].encode())
    if not select.select([terminal], [], [], 0.05)[0]:
        continue
    try:
        part = os.read(terminal, 65536)
    except OSError:
        break
    if not part:
        break
    screen += part
else:
    os.kill(pid, 9)
_, status = os.waitpid(pid, 0)
sys.stdout.buffer.write(screen)
sys.stdout.flush()
os._exit(os.waitstatus_to_exitcode(status) & 255)
`;

/** The command line at a terminal: how it ended, and the screen's lines with their colours, without what was overwritten. */
export async function atTerminal(
  client: Client,
  args: readonly string[],
  { steps = [], columns = 80 }: { readonly steps?: readonly Step[]; readonly columns?: number } = {},
): Promise<{ code: number | string; screen: string; raw: string }> {
  const given = JSON.stringify([[MILLRACE, ...args], steps, columns]);
  const { code, stdout: raw } = await run("python3", ["-c", DRIVER, given], {
    cwd: client.cwd,
    env: client.env,
  });
  // A line begins anew where the cursor goes back and the rest is cleared; other moves of the cursor say nothing.
  // oxlint-disable-next-line no-control-regex
  const lines = raw.split("\n").map((line) => line.replace(/\r$/, "").replace(/^[^\n]*\r\u{1b}\[K/u, ""));
  // oxlint-disable-next-line no-control-regex
  const screen = lines.join("\n").replaceAll(/\u{1b}\[\d*[GJK]/gu, "");
  return { code, screen, raw };
}
