import { section } from "./row.ts";

/** GPUs of the service's machine. */
export const GPUS = {
  ...section("docs/gpus.md: Which GPUs the service uses", {
    "gpus.choice": "MILLRACE_GPUS chooses all GPUs of the machine, none, or some by their numbers or UUIDs.",
    "gpus.found":
      "The service knows UUID, model, memory, bus id and device files of each GPU and of each MIG instance.",
    "gpus.readings":
      "The service knows how full and how busy a GPU is, and which processes have memory of it, where the driver says so.",
    "gpus.models": "An app names a GPU the way people write it; a MIG instance is named by its profile.",
    "gpus.fake": "For tests there are fake GPUs, without device files and with a loud warning.",
    "gpus.none": "A machine without GPUs costs nothing: no process is started, and nothing is logged.",
    "gpus.deploy-warning":
      "A build warns if the app asks for GPUs that the host does not have, and says what it has.",
  }),
  ...section("docs/gpus.md: GPUs that fail", {
    "gpus.faults":
      "A GPU that is lost, has failed memory or a fatal XID error is out of service, and says what to do.",
    "gpus.retry": "A faulty GPU is tried again after 30 s, and then less and less often.",
    "gpus.hang":
      "A driver that hangs or dies costs the service nothing: its GPUs are out of service until it answers.",
    "gpus.driver": "A driver that does not work is told in one line of the log, and tried again.",
  }),
} as const;
