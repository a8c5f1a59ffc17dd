import { PYTHON_ELSEWHERE } from "../../host/app-python.ts";
import { readImageRecord } from "../../host/containers/image-record.ts";
import type { Containers } from "../../host/containers/containers.ts";
import type { Engine, Workload } from "../engine.ts";
import { foldersOf } from "../local/folders.ts";
import type { ProcessHost } from "../local/host.ts";
import { IdleTemplates } from "../templates/idle-templates.ts";
import { ProcessSeat } from "../templates/seat.ts";
import { ContainerServer } from "./container-server.ts";
import { spawnContainer } from "./spawn-container.ts";

/** Runs replicas whose packages are in an image as containers, and leaves all others to `processes`. */
export function containerEngine(host: ProcessHost, containers: Containers, processes: Engine): Engine {
  const own = { ...host, containers };
  const idle = new IdleTemplates();
  const isOurs = (workload: Workload): boolean =>
    readImageRecord(foldersOf(workload, host.dataDir).environment) !== null;
  return {
    name: "container",
    open: (workload, keepMs, home, owner) => {
      if (!isOurs(workload)) return processes.open(workload, keepMs, home, owner);
      const parts = {
        ...host,
        idle,
        spawn: spawnContainer(own, home),
        interpreterOf: () => PYTHON_ELSEWHERE,
      };
      return new ProcessSeat(parts, workload, keepMs, home, owner);
    },
    serve: (workload, events) => {
      if (!workload.server || !isOurs(workload)) return processes.serve(workload, events);
      return new ContainerServer(own, workload, workload.server, events);
    },
  };
}
