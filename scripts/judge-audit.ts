/** What `npm audit --json` prints, as far as it is read here. */
type Audit = {
  readonly vulnerabilities?: Readonly<Record<string, Vulnerability>>;
  readonly metadata?: { readonly dependencies?: { readonly total?: number } };
  /** In place of the rest, when the list could not be asked. */
  readonly message?: string;
  readonly error?: { readonly summary?: string };
};

type Vulnerability = {
  readonly name: string;
  readonly severity: string;
  readonly range: string;
  /** Advisories, and names of packages through which one comes. */
  readonly via: readonly (string | { readonly title: string; readonly url: string })[];
  readonly fixAvailable: boolean | { readonly name: string; readonly version: string };
};

/** How a review ends. One that could not be made is not one that found nothing. */
export const REVIEW = { clean: 0, found: 1, notMade: 2 } as const;

/** What is to be said of an audit, and the exit code of the review. */
export type Judgement = { readonly exitCode: number; readonly lines: readonly string[] };

const SERIOUS = new Set(["high", "critical"]);

/** Judges what npm printed: an advisory of severity high or critical fails the review, others are only told. */
export function judgeAudit(printed: string): Judgement {
  const audit = parse(printed);
  if (!audit?.vulnerabilities) {
    const why =
      audit?.message ?? audit?.error?.summary ?? (printed.trim().slice(0, 300) || "npm printed nothing");
    return {
      exitCode: REVIEW.notMade,
      lines: [
        "NOT REVIEWED: the configured registry gave no list of advisories.",
        `  ${why}`,
        "  Run this again where the registry has one (npm config get registry says which is asked).",
      ],
    };
  }
  const found = Object.values(audit.vulnerabilities);
  const serious = found.filter(({ severity }) => SERIOUS.has(severity));
  const total = audit.metadata?.dependencies?.total ?? 0;
  const reviewed = `${total} packages reviewed: ${serious.length} with a serious advisory, ${found.length - serious.length} with a lesser one.`;
  return {
    exitCode: serious.length > 0 ? REVIEW.found : REVIEW.clean,
    lines: [reviewed, ...[...serious, ...found.filter((one) => !serious.includes(one))].flatMap(describe)],
  };
}

function describe({ name, severity, range, via, fixAvailable }: Vulnerability): string[] {
  const why = via.map((one) => (typeof one === "string" ? `through ${one}` : `${one.title} (${one.url})`));
  const fix =
    typeof fixAvailable === "object" ? `${fixAvailable.name} ${fixAvailable.version}` : "a newer version";
  const remedy = fixAvailable === false ? "no version mends it yet" : `mended by ${fix}`;
  return [`${severity}: ${name} ${range}: ${remedy}`, ...why.map((line) => `  ${line}`)];
}

function parse(printed: string): Audit | null {
  try {
    return JSON.parse(printed) as Audit;
  } catch {
    return null;
  }
}
