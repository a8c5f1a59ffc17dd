import type { MillraceRunning } from "../subjects/millrace.ts";
import { APP } from "./millrace-runner.ts";

/** Looks at records and lists of a service whose app is working, one after the other. */

const LOOKS = 60;
const PAGE = 50;
const MANY = 1_000;

type Page = { readonly items: readonly { readonly id: string }[]; readonly nextToken: string };

/** The path of the app below its service, `/{project}/{app}`: how the store's process finds it. */
export function appPath({ projectUrl }: MillraceRunning): string {
  return `${projectUrl.split("/").at(-1)}/${APP}`;
}

/** How long the record of a waiting run takes, with its position: of the last runs, and of some that came before a time. */
export async function positionTimes(service: MillraceRunning, before: Date): Promise<number[]> {
  const { items: last } = await page(service, "", MANY);
  const { items: early } = await page(service, `&to=${before.toISOString()}`, MANY);
  const ids = [...last, ...early].map(({ id }) => id);
  const times: number[] = [];
  for (let look = 0; look < LOOKS; look++) {
    const id = ids[Math.floor((look / LOOKS) * ids.length)];
    if (id === undefined) throw new Error("no run waits");
    const url = service.callUrl(APP, `runs/${id}`);
    times.push(await timed(async () => void (await ask(service, url))));
  }
  return times;
}

/** How long a page of the waiting runs takes, page after page. */
export async function pageTimes(service: MillraceRunning): Promise<number[]> {
  const times: number[] = [];
  let token = "";
  for (let look = 0; look < LOOKS; look++) {
    times.push(
      await timed(async () => {
        const more = token === "" ? "" : `&nextToken=${encodeURIComponent(token)}`;
        token = (await page(service, more, PAGE)).nextToken;
      }),
    );
  }
  return times;
}

async function page(service: MillraceRunning, more: string, size: number): Promise<Page> {
  const [project, app] = appPath(service).split("/");
  const url = `${service.projectUrl}/apps/${project}-${app}/runs?status=queued&pageSize=${size}${more}`;
  return JSON.parse(await ask(service, url)) as Page;
}

async function ask({ headers }: MillraceRunning, url: string): Promise<string> {
  const response = await fetch(url, { headers });
  const text = await response.text();
  if (response.status !== 200)
    throw new Error(`status ${response.status} from ${url}: ${text.slice(0, 200)}`);
  return text;
}

async function timed(act: () => Promise<void>): Promise<number> {
  const startedAt = performance.now();
  await act();
  return performance.now() - startedAt;
}
