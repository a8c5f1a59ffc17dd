import { existsSync, readdirSync, readFileSync } from "node:fs";
import path from "node:path";

/** Where NVIDIA's driver and its GPUs are found; tests have a stand-in. */
export type DriverFiles = {
  readonly library: string;
  readonly control: string;
  readonly capabilities: string;
  /** The folder of device files, and that of the devices on the PCI bus. */
  readonly devices: string;
  readonly pci: string;
};

export const NVIDIA: DriverFiles = {
  library: "libnvidia-ml.so.1",
  control: "/dev/nvidiactl",
  capabilities: "/proc/driver/nvidia/capabilities",
  devices: "/dev",
  pci: "/sys/bus/pci/devices",
};

const DEVICE_FILE = /^nvidia\d+$/;
const VENDOR = "0x10de";
/** Of displays and 3D controllers: a GPU may have a sound device beside it. */
const DISPLAY = "0x03";

/** Whether there are GPUs of NVIDIA, whatever the driver says. */
export function hasGpus({ devices, pci }: DriverFiles = NVIDIA): boolean {
  return namesIn(devices).some((name) => DEVICE_FILE.test(name)) || namesIn(pci).some(isGpu);

  function isGpu(device: string): boolean {
    return read(device, "vendor") === VENDOR && read(device, "class").startsWith(DISPLAY);
  }
  function read(device: string, attribute: string): string {
    try {
      return readFileSync(path.join(pci, device, attribute), "latin1").trim();
    } catch {
      return ""; // It was removed just now.
    }
  }
}

/** Whether there is something to ask the driver for. */
export function mayHaveGpus(files: DriverFiles = NVIDIA): boolean {
  return existsSync(files.control) || hasGpus(files);
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return []; // Containers may have none.
  }
}
