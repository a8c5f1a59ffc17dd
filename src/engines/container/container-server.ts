import type {
  Exit,
  ServerCommand,
  ServerEvents,
  ServerPlace,
  StartedServer,
  Usage,
  Workload,
} from "../engine.ts";
import type { Agent } from "../local/agent.ts";
import { startAppContainer } from "./app-container.ts";
import type { StartedContainer } from "../../host/containers/start-container.ts";
import type { ContainerHost } from "./host.ts";

const ON_LOOPBACK =
  "its server listens on 127.0.0.1 inside its container, where nobody reaches it; have it listen on 0.0.0.0";
const PORT_VARIABLE = /\$(?:PORT\b|\{PORT\})/g;
const NO_PORT = "every port for servers (21000 to 24999) is in use";

/** An app's own server in a container of its own. There it has the port that its author wrote. */
export class ContainerServer implements StartedServer {
  readonly exited: Promise<Exit>;
  readonly #host: ContainerHost;
  readonly #workload: Workload;
  readonly #command: ServerCommand;
  readonly #events: ServerEvents;
  #container: StartedContainer | null = null;
  #pid = 0;
  #watch: Agent | null = null;
  #port = 0;
  #isKilled = false;

  constructor(host: ContainerHost, workload: Workload, command: ServerCommand, events: ServerEvents) {
    this.#host = host;
    this.#workload = workload;
    this.#command = command;
    this.#events = events;
    this.exited = this.#live();
  }

  get pid(): number {
    return this.#pid;
  }

  kill(): void {
    this.#isKilled = true;
    this.#container?.end();
  }

  askToEnd(): void {
    this.#container?.askToEnd();
  }

  async usage(): Promise<Usage | null> {
    return (await this.#watch?.questions.usage(0)) ?? null;
  }

  /**
   * The port outside is the engine's from the start, so that a connection tells nothing. What listens inside is seen
   * in the container's own network.
   */
  async place(): Promise<ServerPlace> {
    const place = (await this.#watch?.questions.place())?.place;
    if (place?.kind !== "listening") return { kind: "nowhere" };
    if (!place.isOpen) return { kind: "nowhere", why: ON_LOOPBACK };
    return { kind: "listening", host: "127.0.0.1", port: this.#port, isOpen: false, isFixed: false };
  }

  async #live(): Promise<Exit> {
    const { ports } = this.#host;
    const port = await ports.take();
    if (port === null) return { detail: NO_PORT, initFailure: { message: NO_PORT, traceback: NO_PORT } };
    this.#port = port;
    try {
      return await this.#run();
    } catch (error) {
      return { detail: (error as Error).message, initFailure: null };
    } finally {
      ports.giveBack(port);
    }
  }

  async #run(): Promise<Exit> {
    if (this.#isKilled) return { detail: "stopped before it started", initFailure: null };
    const { entrypoint, port: inside } = this.#command;
    const [program = null, ...args] = entrypoint.map((word) => word.replace(PORT_VARIABLE, String(inside)));
    const started = await startAppContainer(
      this.#host,
      this.#workload,
      {
        program,
        args,
        port: { outside: this.#port, inside },
        input: null,
        mounts: [],
        variables: { ...this.#workload.variables, PORT: String(inside) },
      },
      this.#events,
    );
    if (!("container" in started)) return started;
    this.#container = started.container;
    if (this.#isKilled) started.container.end();
    started.onBorn((pid) => (this.#pid = pid));
    void started.watch.then((agent) => (this.#watch = agent));
    return await started.exited;
  }
}
