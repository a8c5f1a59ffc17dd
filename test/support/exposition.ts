/** One line of figures as Prometheus reads it. */
type ExposedSample = {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
};

/** What a scrape gave: every sample, and the type that was announced for each name. */
export type Exposition = {
  readonly types: ReadonlyMap<string, string>;
  readonly samples: readonly ExposedSample[];
};

const SAMPLE = /^([a-z_]+)(?:\{(.*)\})? ([-+.\w]+)(?: # \{.*)?$/;
const LABEL = /([a-z_]+)="((?:[^"\\]|\\.)*)",?/g;

/** Reads the text form; throws at the first line that is not part of it. */
export function parseExposition(text: string): Exposition {
  const types = new Map<string, string>();
  const samples: ExposedSample[] = [];
  for (const line of text.split("\n")) {
    const [, typed, type] = /^# TYPE (\S+) (counter|gauge|histogram)$/.exec(line) ?? [];
    if (typed !== undefined && type !== undefined) types.set(typed, type);
    if (line === "" || line.startsWith("# ")) continue;
    const [, name, labels = "", value] = SAMPLE.exec(line) ?? [];
    if (name === undefined) throw new Error(`no sample: ${line}`);
    const pairs = [...labels.matchAll(LABEL)].map(([, key = "", content = ""]) => [key, content]);
    samples.push({ name, labels: Object.fromEntries(pairs), value: Number(value) });
  }
  return { types, samples };
}
