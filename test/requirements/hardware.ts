import { section } from "./row.ts";

/** What people see of the machine's GPUs. */
export const HARDWARE = {
  ...section("docs/gpus.md: Watch the GPUs", {
    "hardware.models":
      "GET /v2/hardware has a row for each model of GPU that works: how many there are, and the memory of one.",
    "hardware.gpus": "The operator sees each GPU: its health, its memory and load, and which apps have it.",
    "hardware.nodes":
      "The GPUs of every node are listed by each of them; a node that does not answer, with the reason.",
    "hardware.cli": "`millrace hardware` lists models, and each GPU with what is wrong with it.",
    "hardware.dashboard":
      "The page Hardware shows the operator machines and GPUs, or what to do where there is none.",
    "hardware.replicas":
      "An app's replicas are listed with their GPUs, in the API, the CLI and the dashboard.",
    "hardware.app":
      "An app's page shows how full its GPUs are and were, and which app its replicas made room for; a run's, setup().",
    "hardware.metrics": "/metrics has gauges for each GPU, and nothing of them on a machine without any.",
    "hardware.metrics.replicas":
      "/metrics has for each replica what it was granted of which GPU, and what it uses where that is known.",
    "hardware.history":
      "The operator sees the last hour of each GPU with its evictions, and an app that of the GPUs it had.",
    "hardware.doctor":
      "doctor names the driver and each GPU, and says what to do about one that does not work, and about AMD's.",
  }),
};
