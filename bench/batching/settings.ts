/** A policy that does not learn: so many calls at most, and how long the first of them waits for others. */
export type BatchSetting = { readonly size: number; readonly waitMs: number };

/** Each size with each wait. */
export function cross(sizes: readonly number[], waitsMs: readonly number[]): BatchSetting[] {
  return sizes.flatMap((size) => waitsMs.map((waitMs) => ({ size, waitMs })));
}

/** The fixed policies that Millrace's own is held against. */
export const FIXED_SETTINGS = cross([8, 16, 32, 48, 64], [0, 2, 5, 10]);

/** The function that the benchmark's app has for a fixed policy. */
export function fixedFunction({ size, waitMs }: BatchSetting): string {
  return `${FIXED_PREFIX}${size}_${waitMs}`;
}

/** Functions whose names begin with it leave by a fixed policy. */
export const FIXED_PREFIX = "fixed_";

export function settingText({ size, waitMs }: BatchSetting): string {
  return `${size} calls, ${waitMs} ms`;
}
