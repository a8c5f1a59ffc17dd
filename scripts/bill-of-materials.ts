import { createHash } from "node:crypto";
import { globSync, readFileSync } from "node:fs";
import path from "node:path";

/** The packages of a lockfile by their places, such as `node_modules/one/node_modules/two`; our own is at "". */
export type Places = Readonly<Record<string, Place>>;

type Place = {
  readonly version?: string;
  readonly optional?: boolean;
  readonly license?: string;
  /** `sha512-` and the digest in base64. */
  readonly integrity?: string;
} & Partial<Record<Needs, Readonly<Record<string, string>>>>;
type Needs = "dependencies" | "optionalDependencies" | "peerDependencies";

/**
 * The bill of materials of the npm package in CycloneDX's form: what an installation has by the lockfile of a folder, and
 * what is in the files of the dashboard. `npm sbom` leaves out both that and a fifth of what is installed (npm 11).
 */
export function billOfMaterials(folder: string, seconds: number): string {
  const { packages } = JSON.parse(readFileSync(path.join(folder, "package-lock.json"), "utf8")) as {
    packages: Places;
  };
  const installed = packagesBelow(packages, namesOf(packages[""]));
  const bundled = packagesBelow(packages, importsOf(path.join(folder, "web")));
  const places = [...new Set([...installed, ...bundled])].toSorted();
  const own = { type: "application", ...componentOf(packages, "") };
  const bom = {
    $schema: "http://cyclonedx.org/schema/bom-1.5.schema.json",
    bomFormat: "CycloneDX",
    specVersion: "1.5",
    serialNumber: "",
    version: 1,
    metadata: { timestamp: new Date(seconds * 1000).toISOString(), component: own },
    components: places.map((place) => ({
      type: "library",
      ...componentOf(packages, place),
      // Part of the dashboard's files, and not installed.
      ...(!installed.has(place) && { properties: [{ name: "millrace:bundled", value: "dashboard" }] }),
    })),
    dependencies: ["", ...places].map((place) => ({
      ref: refOf(packages, place),
      dependsOn: namesOf(packages[place]).flatMap((name) => {
        const found = placeOf(packages, place, name);
        return found === null ? [] : [refOf(packages, found)];
      }),
    })),
  };
  const digest = createHash("sha256").update(JSON.stringify(bom)).digest("hex");
  // A UUID of version 8: its digits are our own, so that equal bills have the same.
  const [, a, b, c, d, e] = /^(.{8})(.{4}).(.{3}).(.{3})(.{12})/.exec(digest) ?? [];
  return `${JSON.stringify({ ...bom, serialNumber: `urn:uuid:${a}-${b}-8${c}-8${d}-${e}` }, null, 2)}\n`;
}

/** The places of these packages and of all that they need, as Node finds them from the root. */
export function packagesBelow(packages: Places, names: readonly string[]): Set<string> {
  const found = new Set<string>();
  const visit = (from: string, name: string): void => {
    const place = placeOf(packages, from, name);
    if (place === null || found.has(place)) return;
    found.add(place);
    for (const below of namesOf(packages[place])) visit(place, below);
  };
  for (const name of names) visit("", name);
  return found;
}

function namesOf(place: Place | undefined): string[] {
  return Object.keys({
    ...place?.dependencies,
    ...place?.optionalDependencies,
    ...place?.peerDependencies,
  }).toSorted();
}

/** In the nearest folder, from the package's own to the root; null for one that is in none, as a peer may be. */
function placeOf(packages: Places, from: string, name: string): string | null {
  const place = `${from === "" ? "" : `${from}/`}node_modules/${name}`;
  if (packages[place]) return place;
  return from === ""
    ? null
    : placeOf(packages, from.replace(/\/?node_modules\/(?:@[^/]+\/)?[^/]+$/, ""), name);
}

function componentOf(packages: Places, place: string) {
  const { version, license, integrity } = packages[place] ?? {};
  const name = nameOf(place);
  const [, base64] = /^sha512-(.+)$/.exec(integrity ?? "") ?? [];
  return {
    "bom-ref": refOf(packages, place),
    name,
    version,
    purl: `pkg:npm/${name.replace("@", "%40")}@${version}`,
    ...(base64 !== undefined && {
      hashes: [{ alg: "SHA-512", content: Buffer.from(base64, "base64").toString("hex") }],
    }),
    ...(license !== undefined && { licenses: [{ expression: license }] }),
  };
}

/** Two of one version may be at two places: each is a component. */
function refOf(packages: Places, place: string): string {
  const inner = place.split("node_modules/").length > 2 ? `#${place}` : "";
  return `${nameOf(place)}@${packages[place]?.version}${inner}`;
}

function nameOf(place: string): string {
  return place === "" ? "millrace" : place.replace(/^.*node_modules\//, "");
}

/** The packages that the files of a folder import; not its tool's configuration, which is no part of what is built. */
function importsOf(folder: string): string[] {
  const files = globSync("**/*.{ts,tsx,css}", { cwd: folder }).filter((file) => file !== "vite.config.ts");
  const names = files.flatMap((file) => {
    const text = readFileSync(path.join(folder, file), "utf8");
    return [...text.matchAll(/(?:from|import) "((?:@[^/"]+\/)?[^./"][^/"]*)/g)].map(([, name = ""]) => name);
  });
  return [...new Set(names)];
}
