import { type Exit, type StartedServer, refused, STOPPED, ended } from "../engine.ts";
import type { PortSource } from "./ports.ts";
import { SERVER_PORTS } from "../../host/walls/network.ts";

const NO_PORT = refused(`every port for servers (${SERVER_PORTS.first} to ${SERVER_PORTS.last}) is in use`);

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
      if (port === null) return NO_PORT;
      return await runOn(port).finally(() => ports.giveBack(port));
    } catch (error) {
      return ended((error as Error).message);
    }
  };
  return {
    get pid() {
      return running?.pid ?? 0;
    },
    get ancestor() {
      return running?.ancestor ?? this.pid;
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
