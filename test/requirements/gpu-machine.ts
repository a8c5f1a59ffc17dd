import { section } from "./row.ts";

/** What only a real GPU can show. */
export const GPU_MACHINE = {
  ...section("docs/gpus.md: Tests on a GPU", {
    "gpu.found": "The GPU that nvidia-smi lists is the one that /v2/hardware has, and that PyTorch sees.",
    "gpu.granted":
      "An app can open the GPU that it was granted, and knows it by variables; without a grant none.",
    "gpu.anywhere": "CUDA can start at import, in setup() of forks, and in an async def.",
    "gpu.swaps": "Apps that each need 60 % of a GPU are called in turn, and no call ever fails.",
    "gpu.beside": "Replicas that fit on a GPU together hold their memory at once.",
    "gpu.killed": "After kill -9 of a replica or of the service the GPU is granted again, once.",
  }),
};
