import { matches, modelOf, NAMED_GB } from "../../host/gpus/source.ts";
import { labelValue } from "./labels.ts";

/** Set by NVIDIA's GPU feature discovery: the name that the driver gives the GPUs of a machine. */
export const PRODUCT = "nvidia.com/gpu.product";

/** Values of that label, by the GB of one GPU. Before driver 450 some names had no `NVIDIA`. */
const PRODUCTS: Readonly<Record<number, string>> = {
  8: "Tesla-P4",
  12: "Tesla-K80 Tesla-P100-PCIE-12GB",
  16:
    "Tesla-P100-PCIE-16GB Tesla-P100-SXM2-16GB Tesla-V100-PCIE-16GB Tesla-V100-SXM2-16GB Tesla-T4 NVIDIA-A2 " +
    "NVIDIA-A16 NVIDIA-RTX-A4000",
  20: "NVIDIA-RTX-4000-Ada-Generation NVIDIA-RTX-4000-SFF-Ada-Generation",
  24:
    "Tesla-P40 NVIDIA-A10 NVIDIA-A10G NVIDIA-A30 NVIDIA-L4 NVIDIA-RTX-A5000 NVIDIA-GeForce-RTX-3090 " +
    "NVIDIA-GeForce-RTX-4090 Quadro-RTX-6000",
  32:
    "Tesla-V100-PCIE-32GB Tesla-V100-SXM2-32GB Tesla-V100-SXM3-32GB Tesla-V100S-PCIE-32GB " +
    "NVIDIA-RTX-5000-Ada-Generation NVIDIA-GeForce-RTX-5090",
  40: "NVIDIA-A100-SXM4-40GB NVIDIA-A100-PCIE-40GB A100-SXM4-40GB A100-PCIE-40GB",
  48:
    "NVIDIA-A40 NVIDIA-L20 NVIDIA-L40 NVIDIA-L40S NVIDIA-RTX-A6000 NVIDIA-RTX-6000-Ada-Generation " +
    "Quadro-RTX-8000",
  80:
    "NVIDIA-A100-SXM4-80GB NVIDIA-A100-80GB-PCIe NVIDIA-A800-SXM4-80GB NVIDIA-A800-80GB-PCIe A100-SXM4-80GB " +
    "NVIDIA-H100-80GB-HBM3 NVIDIA-H100-PCIe NVIDIA-H800 NVIDIA-H800-PCIe",
  94: "NVIDIA-H100-NVL",
  96: "NVIDIA-H20 NVIDIA-GH200-480GB NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition",
  141: "NVIDIA-H200 NVIDIA-H200-NVL",
  180: "NVIDIA-B200",
  186: "NVIDIA-GB200",
};

const KNOWN = Object.entries(PRODUCTS).flatMap(([gb, products]) =>
  products
    .split(" ")
    .map((product) => ({ product, model: modelOf(product), memoryBytes: Number(gb) * NAMED_GB })),
);

/** The products that are meant by what an app asks for: those that are known by that name, and the name itself. */
export function productsFor(models: readonly string[]): string[] {
  const known = KNOWN.filter((gpu) => models.some((asked) => matches(asked, gpu)));
  return [...new Set([...known.map(({ product }) => product), ...models.map(labelValue)])];
}
