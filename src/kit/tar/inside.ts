/**
 * Of a name in an archive: a longer one could not be unpacked below a directory of some length, and each folder that it
 * goes through is open meanwhile. Apps and builds make folders as deep as they like.
 */
const MAX_NAME_BYTES = 3_000;
const MAX_DEPTH = 500;

/** Whether nobody could unpack something of that name. */
export function isTooLong(name: string): boolean {
  return Buffer.byteLength(name) > MAX_NAME_BYTES || name.split("/").length > MAX_DEPTH;
}

/** Whether a name is a place below the folder that it is unpacked into. */
export function isPlain(name: string): boolean {
  return (
    !name.includes("\0") && name.split("/").every((step) => step !== "" && step !== "." && step !== "..")
  );
}

/**
 * Whether a link stays so many levels below the root, whatever else is a link there: it goes up first, through
 * directories that are no links, and never up again.
 */
export function staysInside(name: string, target: string, rootDepth: number): boolean {
  const depth = name.split("/").length - 1;
  const steps = target.split("/");
  if (target === "" || target.startsWith("/") || target.includes("\0")) return false;
  const ups = steps.findIndex((step) => step !== "..");
  const down = ups < 0 ? [] : steps.slice(ups);
  return depth - (ups < 0 ? steps.length : ups) >= rootDepth && !down.includes("..");
}
