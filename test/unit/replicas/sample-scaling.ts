import { readAppConfig } from "../../../src/config/app-config.ts";
import type { ScalingConfig } from "../../../src/model/app-config.ts";

/** The default scaling of a host with two processors, with some of it changed. */
export function sampleScaling(changes: Partial<ScalingConfig> = {}): ScalingConfig {
  return { ...readAppConfig({ host: { cpuCount: 2 } }).config.scaling, ...changes };
}
