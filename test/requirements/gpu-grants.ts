import { section } from "./row.ts";

/** GPUs of this machine: what replicas are granted, and what becomes of them. */
export const GPU_GRANTS = {
  ...section("docs/gpus.md: What a replica is granted", {
    "gpu.variables":
      "A replica is told of its GPUs by variables; all other processes of apps are told of none.",
    "gpu.containers": "A container is given its GPUs through CDI with podman, through --gpus with docker.",
    "gpu.template": "A template imports with the GPUs of its first replica, and keeps none.",
    "gpu.none": "On a machine without a GPU an app runs on the CPU, with an empty CUDA_VISIBLE_DEVICES.",
    "gpu.cpu": "An app whose list has the CPU as well runs on it where no GPU of the list exists.",
    "gpu.close":
      "A template that cannot be kept from a GPU that it gave back ends; its replicas are replaced first.",
    "gpu.stopped": "The GPU of an import that was stopped comes back within seconds.",
    "gpu.release": "GPUs come back when the processes of their replica are gone, and are granted once.",
  }),
  ...section("docs/gpus.md: While no GPU is free", {
    "gpu.queue":
      "Waiting for a GPU counts toward max_queue_seconds, then 503 no_gpu_free says what is in the way.",
    "gpu.waiting": "Waiting for a GPU does not count toward deployment_initialization_timeout.",
    "gpu.never": "An app that no GPU of the machine will ever serve gets 503 no_gpu_free at once.",
    "gpu.evicted":
      "Idle replicas make room for other apps; the app's log names the app, and the next call starts one again.",
    "gpu.excess":
      "A replica that uses more than its share while others wait is ended with 502 out_of_gpu_memory.",
  }),
  ...section("docs/gpus.md: Deploys of apps with GPUs", {
    "gpu.deploy":
      "A version without room beside the one that serves starts when that one has ended; calls wait meanwhile.",
    "gpu.deploy.failed": "If the new version fails, the old one starts again.",
    "gpu.minimums": "Minimums that cannot all fit are refused by name, at deploy and at PATCH.",
    "gpu.max-replicas": "A deploy warns of max_replicas that the machine has no GPUs for.",
  }),
};
