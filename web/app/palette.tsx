import { queryOptions, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useEffect, useLayoutEffect, useRef, useState } from "react";
import type { KeyboardEvent } from "react";
import { appsQuery, nameOf } from "../api/apps.ts";
import { meQuery } from "../api/me.ts";
import { isRunId } from "../api/run-search.ts";
import { readRuns } from "../api/runs.ts";
import { session } from "../api/session.ts";
import { classes } from "../parts/classes.ts";
import { tellError } from "../parts/toasts.tsx";
import { toggleTheme } from "./theme.ts";

type Entry = { readonly title: string; readonly kind: string; readonly go: () => unknown };

/** The list scrolls. */
const MAX_SHOWN = 40;
const PAGES = [
  ["Overview", "/projects/$projectId"],
  ["Apps", "/projects/$projectId/apps"],
  ["Runs", "/projects/$projectId/runs"],
  ["Usage", "/projects/$projectId/usage"],
  ["API keys", "/projects/$projectId/keys"],
  ["Webhooks", "/projects/$projectId/webhooks"],
  ["Files", "/projects/$projectId/files"],
  ["Audit", "/projects/$projectId/audit"],
  ["Settings", "/projects/$projectId/settings"],
] as const;
/** Besides, for the operator. */
const OPERATOR_PAGES = [
  ["Nodes", "/projects/$projectId/nodes"],
  ["Hardware", "/projects/$projectId/hardware"],
] as const;
const APP_PAGES = ["runs", "logs", "builds", "playground", "settings", "secrets"] as const;

/** Every place and some deeds by name, for hands that stay on the keyboard. */
export function Palette({
  projectId,
  isOpen,
  onClose,
}: {
  readonly projectId: string;
  readonly isOpen: boolean;
  readonly onClose: () => void;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  // Before the next key can be pressed, so that the field has it.
  useLayoutEffect(() => {
    const element = dialog.current;
    if (isOpen && !element?.open) element?.showModal();
    if (!isOpen && element?.open) element.close();
  }, [isOpen]);
  const take = (entry: Entry | undefined): void => {
    onClose();
    entry?.go();
  };
  return (
    <dialog
      ref={dialog}
      aria-label="Go to"
      // Told a moment later: by then it may be open again.
      onClose={({ currentTarget }) => !currentTarget.open && onClose()}
      onClick={(event) => event.target === dialog.current && onClose()}
      className="mx-auto mt-[12vh] w-[calc(100vw-2rem)] max-w-xl overflow-hidden rounded-xl border border-line bg-raised p-0 text-ink shadow-xl backdrop:bg-black/45"
    >
      {isOpen && <Destinations projectId={projectId} onTake={take} />}
    </dialog>
  );
}

function Destinations({
  projectId,
  onTake,
}: {
  readonly projectId: string;
  readonly onTake: (entry: Entry | undefined) => void;
}) {
  const [text, setText] = useState("");
  const [chosen, setChosen] = useState(0);
  const entries = useEntries(projectId, text);
  useEffect(() => {
    document.querySelector(`#palette-${chosen}`)?.scrollIntoView({ block: "nearest" });
  }, [chosen]);
  const onKey = (event: KeyboardEvent): void => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key] ?? 0;
    if (step !== 0) {
      event.preventDefault();
      setChosen((index) => (index + step + entries.length) % Math.max(1, entries.length));
    } else if (event.key === "Enter") {
      event.preventDefault();
      onTake(entries[chosen]);
    }
  };
  return (
    <>
      <input
        autoFocus
        role="combobox"
        aria-expanded="true"
        aria-controls="palette-list"
        aria-activedescendant={entries[chosen] ? `palette-${chosen}` : undefined}
        aria-label="Page, app or run id"
        placeholder="Page, app or run id…"
        value={text}
        onChange={({ target }) => {
          setText(target.value);
          setChosen(0);
        }}
        onKeyDown={onKey}
        className="h-12 w-full border-b border-line bg-transparent px-4 outline-none"
      />
      <ul
        id="palette-list"
        role="listbox"
        aria-label="Places"
        className="max-h-[min(30rem,70vh)] overflow-y-auto p-2"
      >
        {entries.map((entry, index) => (
          <li
            key={index}
            id={`palette-${index}`}
            role="option"
            aria-selected={index === chosen}
            onMouseMove={() => setChosen(index)}
            onClick={() => onTake(entry)}
            className={classes(
              "flex h-9 cursor-pointer items-center gap-3 rounded-md px-3",
              index === chosen && "bg-accent-soft text-accent",
            )}
          >
            <span className="min-w-0 flex-1 truncate">{entry.title}</span>
            <span className="text-[0.86rem] text-ink-faint">{entry.kind}</span>
          </li>
        ))}
        {entries.length === 0 && <li className="px-3 py-4 text-ink-faint">Nothing matches.</li>}
      </ul>
    </>
  );
}

function useEntries(projectId: string, text: string): Entry[] {
  const navigate = useNavigate();
  const { data: apps = [] } = useQuery({ ...appsQuery(projectId), refetchInterval: false });
  const { data: me } = useQuery(meQuery);
  const wanted = text.trim().toLowerCase();
  const { data: run } = useQuery(runByIdQuery(projectId, wanted));
  const pages = me?.isOperator ? [...PAGES, ...OPERATOR_PAGES] : PAGES;
  const entries: Entry[] = pages.map(([title, to]) => ({
    title,
    kind: "page",
    go: () => navigate({ to, params: { projectId } }),
  }));
  for (const { id } of apps) {
    const appName = nameOf(projectId, id);
    const params = { projectId, appName };
    entries.push({
      title: appName,
      kind: "app",
      go: () => navigate({ to: "/projects/$projectId/apps/$appName", params }),
    });
    // An app's own pages only for somebody who names the app: they are many.
    if (wanted === "" || !wanted.startsWith(appName.slice(0, wanted.length))) continue;
    for (const page of APP_PAGES) {
      const to = `/projects/$projectId/apps/$appName/${page}` as const;
      entries.push({ title: `${appName} ${page}`, kind: "app", go: () => navigate({ to, params }) });
    }
  }
  for (const { id, name } of me?.projects ?? []) {
    const to = "/projects/$projectId" as const;
    entries.push({ title: name, kind: "project", go: () => navigate({ to, params: { projectId: id } }) });
  }
  // In sight however many apps there are.
  const last: Entry[] = [
    { title: "Change colours", kind: "deed", go: toggleTheme },
    { title: "Sign out", kind: "deed", go: () => session.signOut().catch(tellError) },
  ];
  if (run) {
    const appName = nameOf(projectId, run.modelId);
    const to = "/projects/$projectId/apps/$appName/runs/$runId" as const;
    const go = () => navigate({ to, params: { projectId, appName, runId: run.id } });
    last.push({ title: run.id, kind: `run of ${appName}`, go });
  }
  const matching = (all: readonly Entry[]) => all.filter(({ title }) => title.toLowerCase().includes(wanted));
  return [...matching(entries).slice(0, MAX_SHOWN), ...matching(last)];
}

/** The run of that id, whichever app it is of. */
function runByIdQuery(projectId: string, id: string) {
  return queryOptions({
    queryKey: ["run by id", projectId, id],
    queryFn: async ({ signal }) =>
      (await readRuns(projectId, { id }, { pageSize: 1 }, signal)).items[0] ?? null,
    enabled: isRunId(id),
  });
}
