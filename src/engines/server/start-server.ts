import type { Exit, StartedServer } from "../engine.ts";
import { cannotStart } from "../local/host.ts";
import type { PortSource } from "./ports.ts";

const NO_PORT = cannotStart("every port for servers (21000 to 24999) is in use");

/** The end of a server that was killed before it started. */
export const STOPPED: Exit = { detail: "stopped before it started", initFailure: null };

/**
 * Starts an app's own server on a port that is reserved until the server has ended. `run` is the engine's part; it
 * returns the running server, or how it ended if it could not start. The server may be killed before it has started,
 * which a `run` that waits for something has to check.
 */
export function startServer(
  ports: PortSource,
  run: (port: number, isKilled: () => boolean) => StartedServer | Exit | Promise<StartedServer | Exit>,
): StartedServer {
  let running: StartedServer | null = null;
  let isKilled = false;
  const leaving = Promise.withResolvers<void>();
  const runOn = async (port: number): Promise<Exit> => {
    if (isKilled) return STOPPED;
    const started = await run(port, () => isKilled);
    if (!("exited" in started)) return started;
    running = started;
    void started.leaving?.then(leaving.resolve);
    if (isKilled) started.kill();
    return await started.exited;
  };
  const live = async (): Promise<Exit> => {
    try {
      const port = await ports.take();
      if (port === null) return { detail: NO_PORT.message, initFailure: NO_PORT };
      return await runOn(port).finally(() => ports.giveBack(port));
    } catch (error) {
      return { detail: (error as Error).message, initFailure: null };
    }
  };
  return {
    get pid() {
      return running?.pid ?? 0;
    },
    exited: live(),
    leaving: leaving.promise,
    kill: () => {
      isKilled = true;
      running?.kill();
    },
    askToEnd: () => running?.askToEnd(),
    place: async () => (await running?.place()) ?? { kind: "nowhere" },
    usage: async () => (await running?.usage()) ?? null,
    obstacle: () => running?.obstacle?.() ?? null,
  };
}
