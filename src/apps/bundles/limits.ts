/** How much an upload may hold. Sizes are of what comes out of it. */
export type BundleLimits = {
  /** Files and folders together. */
  readonly maxFiles: number;
  readonly maxTotalBytes: number;
  readonly maxFileBytes: number;
  /** How many times its packed size a file may have, once it is larger than `ratioFreeBytes`; all together too. */
  readonly maxRatio: number;
  readonly ratioFreeBytes: number;
  readonly ratioFreeTotalBytes: number;
};

const MIB = 1024 * 1024;

/** What holds unless told otherwise. */
export const BUNDLE_LIMITS: BundleLimits = {
  maxFiles: 100_000,
  maxTotalBytes: 8 * 1024 * MIB,
  maxFileBytes: 4 * 1024 * MIB,
  // Source code packs to a tenth, a table of text to a fortieth; deflate ends at 1,032.
  maxRatio: 100,
  ratioFreeBytes: MIB,
  // Small enough to hurt nobody, and no honest bundle past it packs to a hundredth.
  ratioFreeTotalBytes: 64 * MIB,
};
