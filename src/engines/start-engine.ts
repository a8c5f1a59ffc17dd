import type { Settings } from "../config/setting-keys.ts";
import type { Containers } from "../host/containers/containers.ts";
import { type Claim, GpuBroker } from "../host/gpus/broker.ts";
import { type GpuSource, matches } from "../host/gpus/source.ts";
import { guestEnforcement } from "../host/limits/host-limits.ts";
import type { AppLimits, Enforcement } from "../host/limits/limits.ts";
import type { NetworkWall } from "../host/walls/network.ts";
import type { StandingWalls } from "../host/walls/walls.ts";
import type { Lifecycle } from "../kit/lifecycle.ts";
import type { Log } from "../kit/log.ts";
import { SpanCounts } from "../kit/histograms.ts";
import type { GpuKind } from "../model/gpu.ts";
import type { BuildSeats } from "./build-seats.ts";
import { containerEngine } from "./container/engine.ts";
import type { Engine } from "./engine.ts";
import { GrantedEngine, type Gpus } from "./granted-engine.ts";
import type { Home } from "./home.ts";
import { processEngine } from "./local/engine.ts";
import type { ProcessHost } from "./local/host.ts";
import { Ports } from "./server/ports.ts";
import { buildSeats } from "./agent/build-seat.ts";
import { remoteEngine } from "./agent/engine.ts";
import { folderLimits, guestWalls, SeatWallReport } from "./agent/seat-walls.ts";
import { type Blobs, SeatListener, type SeatListenerParts } from "./agent/seat-listener.ts";
import type { SeatPlace } from "./agent/seat-place.ts";
import type { PlaceParts } from "./start-place.ts";

/** How long an agent and a service that have lost each other try to reconnect. */
const SEAT_GRACE_MS = 30_000;
/** Buckets from a warm machine to one that pulls a large image. */
const START_BOUNDS_MS = [100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000];
/** Where pods and actors mount a project's storage. */
const STORAGE = "/persistent-storage";

/** How remote agents reach this service and the others, and which installation they belong to. */
type SeatHome = Pick<SeatListenerParts, "identity" | "host" | "port" | "records"> &
  Pick<PlaceParts, "whose" | "isHeld" | "known"> & {
    readonly addressFor: (port: number) => string;
    readonly isAlone: () => boolean;
    readonly others: () => readonly string[];
  };

type EngineParts = Omit<ProcessHost, "ports" | "dataDir" | "python"> & {
  readonly limits: AppLimits;
  readonly settings: Settings;
  readonly home: Home;
  readonly blobs: Blobs | null;
  readonly containers: Containers;
  readonly log: Log;
  readonly gpus: GpuSource;
  /** The GPUs of each other node that can take apps. */
  readonly gpusOfOtherNodes: () => readonly (readonly GpuKind[])[];
  /** Replaces the engine of this machine. */
  readonly engine?: ((host: ProcessHost) => Engine) | undefined;
  /** Replaces the remote place that the settings name. */
  readonly seats?: { readonly place: SeatPlace; readonly graceMs?: number } | undefined;
  /** Prepares for remote seats; throws if the installation cannot have any. */
  readonly seatHome: () => Promise<SeatHome>;
  readonly python: { readonly path: string; readonly version: string };
};

type StartedEngine = {
  readonly engine: Engine;
  readonly seats: {
    /** How long remote seats took to reach each phase of their start. */
    readonly seatStarts: ReadonlyMap<string, SpanCounts>;
    /** The weakest walls around a remote app; null before one has run, and where seats do not raise them. */
    readonly seatWalls: () => StandingWalls | null;
  };
  readonly reached: { readonly seatAddress?: string };
  /** Called when this service stops: hands remote seats over to the next service, or ends them. */
  readonly leaveSeats: () => void;
  /** What is enforced where apps run, as far as it is known before they do. */
  readonly held: { readonly network: NetworkWall; readonly enforcement: Enforcement };
  /** Null where a cluster grants them, and where nothing does. */
  readonly grants: (Gpus & { readonly broker: Pick<GpuBroker, "use" | "evictions" | "heldBy"> }) | null;
  /** Builds environments for remote machines; null if all are for this machine. */
  readonly builds: BuildSeats | null;
};

export async function startEngine(parts: EngineParts, life: Lifecycle): Promise<StartedEngine> {
  const { settings, containers, engine = processEngine, seats, home, blobs, clock, log, python } = parts;
  const { dataDir } = settings;
  const host = { ...parts, dataDir, python: python.path, ports: new Ports() };
  const seatStarts = new Map<string, SpanCounts>();
  const held = { network: parts.network, enforcement: parts.limits.enforcement };
  if (!seats && settings.engine === "process") {
    const inContainers = containerEngine(host, containers, engine(host));
    const onExcess = (claim: Claim): void => engineHere.endForExcess(claim);
    const own = await openBroker(parts, onExcess, life);
    const gpus = { ...own, others: parts.gpusOfOtherNodes };
    const engineHere = new GrantedEngine(inContainers, gpus);
    const none = { seatStarts, seatWalls: () => null };
    return {
      engine: engineHere,
      seats: none,
      reached: {},
      held,
      builds: null,
      grants: gpus,
      leaveSeats: () => {},
    };
  }
  const seatHome = await parts.seatHome();
  if (!blobs) throw new Error("replicas on other machines are fetched from blobs, and there are none");
  // Imported only where it is needed: that takes 0.1 s.
  const open = async () =>
    (await import("./start-place.ts")).startPlace({ ...parts, ...seatHome, python: python.version });
  const place = seats?.place ?? (await open());
  const walls = place.isShared ? guestWalls(settings, parts.network, place.name) : null;
  const onError = (error: unknown): void => log.error({ err: error }, "could not serve a seat");
  const listener = await life.start(
    "listener for seats",
    async () => {
      try {
        return await SeatListener.listen({ ...seatHome, home, blobs, clock, onError, usher: place.usher });
      } catch (error) {
        // Otherwise its watches would keep the process alive after the error.
        await place.close?.();
        throw error;
      }
    },
    (started) => started.close(),
  );
  const seatAddress = seatHome.addressFor(listener.port);
  const addresses = () => [seatAddress, ...seatHome.others()];
  const graceMs = seats?.graceMs ?? SEAT_GRACE_MS;
  const { authority } = seatHome.identity;
  await life.start(
    "place for seats",
    () => place.openAt?.({ address: seatAddress, authority, graceMs }),
    async () => await place.close?.(),
  );
  // A place passed by a test has no limit.
  const replicasPerSeat = seats ? Number.POSITIVE_INFINITY : settings.replicasPerSeat;
  const onPhase = (phase: string, ms: number): void => {
    const spans = seatStarts.get(phase) ?? new SpanCounts(START_BOUNDS_MS);
    seatStarts.set(phase, spans);
    spans.add(ms);
  };
  let isLeft = false;
  const seating = { place, replicasPerSeat, listener, addresses, graceMs, storage: STORAGE };
  const remote = { ...seating, onPhase, isLeft: () => isLeft };
  const report = new SeatWallReport((standing) => tellWalls(standing, place.name, log));
  const onWalls = (standing: StandingWalls): void => report.hear(standing);
  const shared = walls && { walls, onWalls, folders: folderLimits(settings) };
  // Each seat reports what its own machine cannot enforce.
  const raised = settings.isolation === "none" ? {} : { hasWalls: true, gap: null };
  const network = { ...parts.network, ...raised };
  return {
    engine: remoteEngine(host, { ...remote, ...shared }),
    seats: { seatStarts, seatWalls: () => report.weakest },
    reached: { seatAddress },
    leaveSeats: () => {
      isLeft = settings.keepSeats;
      if (!isLeft && seatHome.isAlone()) place.leaveNothing?.();
    },
    held: walls ? { network, enforcement: guestEnforcement(settings, place.name) } : held,
    grants: null,
    builds: place.builds ? buildSeats(seating, settings.kubernetesBuildWaitMs, clock, onError) : null,
  };
}

/** Grants the GPUs of this machine; `onExcess` ends a replica that uses more than it was granted. */
async function openBroker(
  { gpus: source, settings, clock, log }: EngineParts,
  onExcess: (claim: Claim) => void,
  life: Lifecycle,
): Promise<Gpus & { readonly broker: GpuBroker }> {
  const { gpuHoldMs: holdMs, gpuSharing } = settings;
  const sharesAcrossProjects = gpuSharing === "all";
  const broker = await life.start(
    "broker of GPUs",
    () => new GpuBroker({ source, matches, clock, log, holdMs, sharesAcrossProjects, onExcess }),
    (started) => started.close(),
  );
  return { current: () => source.current(), broker };
}

function tellWalls({ level, gap }: StandingWalls, place: string, log: Log): void {
  if (level === "none")
    log.warn({ detail: gap }, `apps on ${place} have no walls: each can do whatever its user there can`);
  else if (gap !== null)
    log.warn({ isolation: level, detail: gap }, `apps on ${place} can connect to whatever listens there`);
  else log.info({ isolation: level }, `apps on ${place} live behind walls`);
}
