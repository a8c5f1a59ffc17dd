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
import { startPlace } from "./start-place.ts";
import type { PlaceParts } from "./start-place.ts";

/** How long an agent that has lost its service looks for one, and how long a service waits for it. */
const SEAT_GRACE_MS = 30_000;
/** Where pods and actors have a project's storage. */
const STORAGE = "/persistent-storage";

/** How agents of seats elsewhere reach this service and the others, and whose their places are. */
type SeatHome = Pick<SeatListenerParts, "identity" | "host" | "port" | "records"> &
  Pick<PlaceParts, "whose" | "isHeld"> & {
    /** `host:port`, when it listens on that port. */
    readonly addressFor: (port: number) => string;
    /** Of the other services. */
    readonly others: () => readonly string[];
  };

type EngineParts = Omit<ProcessHost, "ports" | "dataDir" | "python"> & {
  readonly settings: Settings;
  readonly home: Home;
  readonly blobs: Blobs | null;
  readonly containers: Containers;
  readonly log: Log;
  /** In place of the usual engine of this machine; absent for that. */
  readonly engine?: ((host: ProcessHost) => Engine) | undefined;
  /** Where replicas run that are not on this machine; absent for what the settings say. */
  readonly seats?: { readonly place: SeatPlace; readonly graceMs?: number } | undefined;
  /** Prepares for those; throws where the installation cannot have any. */
  readonly seatHome: () => Promise<SeatHome>;
  /** This machine's interpreter. */
  readonly python: { readonly path: string; readonly version: string };
};

/** What runs apps, and where the agents of seats elsewhere reach this service; nowhere if there are none. */
type StartedEngine = { readonly engine: Engine; readonly seatAddress?: string };

/** Makes the engine that apps run on. */
export async function startEngine(parts: EngineParts, life: Lifecycle): Promise<StartedEngine> {
  const { settings, containers, engine = processEngine, seats, home, blobs, clock, log, python } = parts;
  const { dataDir, serverPorts } = settings;
  const host = { ...parts, dataDir, python: python.path, ports: new Ports(serverPorts) };
  if (!seats && settings.engine === "process")
    return { engine: containerEngine(host, containers, engine(host)) };
  const seatHome = await parts.seatHome();
  if (!blobs) throw new Error("replicas on other machines are fetched from blobs, and there are none");
  const place = seats?.place ?? (await startPlace({ ...parts, ...seatHome, python: python.version }, life));
  const onError = (error: unknown): void => log.error({ err: error }, "could not serve a seat");
  const listener = await life.start(
    "listener for seats",
    () => SeatListener.listen({ ...seatHome, home, blobs, clock, onError }),
    (started) => started.close(),
  );
  const seatAddress = seatHome.addressFor(listener.port);
  const addresses = () => [seatAddress, ...seatHome.others()];
  const graceMs = seats?.graceMs ?? SEAT_GRACE_MS;
  const { replicasPerSeat } = settings;
  return {
    engine: remoteEngine(host, { place, replicasPerSeat, listener, addresses, graceMs, storage: STORAGE }),
    seatAddress,
  };
}
