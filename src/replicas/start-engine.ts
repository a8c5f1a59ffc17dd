import type { Settings } from "../config/setting-keys.ts";
import type { Containers } from "../host/containers/containers.ts";
import type { Lifecycle } from "../kit/lifecycle.ts";
import type { Log } from "../kit/log.ts";
import { containerEngine } from "./container/engine.ts";
import type { Engine } from "./engine.ts";
import type { Home } from "./home.ts";
import { processEngine } from "./process/engine.ts";
import type { ProcessHost } from "./process/host.ts";
import { Ports } from "./process/server/ports.ts";
import { remoteEngine } from "./remote/engine.ts";
import { SeatListener } from "./remote/seat-listener.ts";
import type { SeatListenerParts } from "./remote/seat-listener.ts";
import type { SeatPlace } from "./remote/seat-place.ts";
import type { Blobs } from "./remote/send-blob.ts";

/** How long an agent that has lost its service looks for one, and how long a service waits for it. */
const SEAT_GRACE_MS = 30_000;
/** Where pods and actors have a project's storage. */
const STORAGE = "/persistent-storage";

/** Where seats elsewhere are, and how their agents reach this service and the others. */
type Elsewhere = Pick<SeatListenerParts, "identity" | "host" | "port" | "records"> & {
  readonly place: SeatPlace;
  /** `host:port`, when it listens on that port. */
  readonly addressFor: (port: number) => string;
  /** Of the other services. */
  readonly others: () => readonly string[];
  readonly graceMs?: number;
};

type EngineParts = Omit<ProcessHost, "ports"> &
  Pick<Settings, "serverPorts"> & {
    readonly home: Home;
    readonly blobs: Blobs | null;
    readonly containers: Containers;
    readonly log: Log;
    /** In place of the usual engine of this machine; absent for that. */
    readonly processes?: ((host: ProcessHost) => Engine) | undefined;
    /** Absent where replicas run on this machine. */
    readonly elsewhere?: Elsewhere | undefined;
  };

/** What runs apps, and where the agents of seats elsewhere reach this service; nowhere if there are none. */
type StartedEngine = { readonly engine: Engine; readonly seatAddress?: string };

/** Makes the engine that apps run on. */
export async function startEngine(parts: EngineParts, life: Lifecycle): Promise<StartedEngine> {
  const { containers, processes = processEngine, elsewhere, home, blobs, clock, log } = parts;
  const host = { ...parts, ports: new Ports(parts.serverPorts) };
  if (!elsewhere || !blobs) return { engine: containerEngine(host, containers, processes(host)) };
  const { place, others, graceMs = SEAT_GRACE_MS } = elsewhere;
  const onError = (error: unknown): void => log.error({ err: error }, "could not serve a seat");
  const listener = await life.start(
    "listener for seats",
    () => SeatListener.listen({ ...elsewhere, home, blobs, clock, onError }),
    (started) => started.close(),
  );
  const seatAddress = elsewhere.addressFor(listener.port);
  const addresses = () => [seatAddress, ...others()];
  return {
    engine: remoteEngine(host, { place, listener, addresses, graceMs, storage: STORAGE }),
    seatAddress,
  };
}
