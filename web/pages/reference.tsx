import { useQuery } from "@tanstack/react-query";
import { Link, useLocation } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { apiDocumentQuery } from "../api/api-document.ts";
import type { ApiDocument, ApiOperation } from "../api/api-document.ts";
import { ThemeButton } from "../app/theme-button.tsx";
import { Card } from "../parts/card.tsx";
import { Field } from "../parts/field.tsx";
import { Mark } from "../parts/mark.tsx";
import { Page } from "../parts/page.tsx";
import { Problem } from "../parts/problem.tsx";
import { Skeleton } from "../parts/skeleton.tsx";
import { OperationView } from "./reference/operation-view.tsx";
import { useCaller } from "./reference/use-caller.ts";
import type { Caller } from "./reference/use-caller.ts";

/** The management API to read and to try: made from its OpenAPI document, for whoever has a token or is signed in. */
export function Reference() {
  const { data: document, error, refetch } = useQuery(apiDocumentQuery);
  const [wanted, setWanted] = useState("");
  const caller = useCaller();
  const groups = groupsOf(document?.operations ?? [], wanted);
  return (
    <div className="flex min-h-screen max-md:flex-col">
      <Sidebar groups={groups} wanted={wanted} onWanted={setWanted} />
      <main id="content" className="min-w-0 flex-1">
        <Page
          title="Management API"
          subtitle={
            <>
              Every operation of <code className="font-mono">{location.origin}</code>, from{" "}
              <a href="/openapi.json" className="text-accent underline">
                openapi.json
              </a>
              . The{" "}
              <a href="/guide/management.html" className="text-accent underline">
                guide
              </a>{" "}
              explains how to use them.
            </>
          }
        >
          <TokenCard caller={caller} />
          {error && <Problem error={error} onRetry={() => void refetch()} />}
          {document ? (
            <Groups document={document} groups={groups} caller={caller} />
          ) : (
            !error && <Skeleton className="h-40 w-full" />
          )}
        </Page>
      </main>
    </div>
  );
}

type Group = readonly [tag: string, operations: readonly ApiOperation[]];

/** The operations that have every word in their path, name or summary, by their tag. */
function groupsOf(operations: readonly ApiOperation[], wanted: string): Group[] {
  const words = wanted.toLowerCase().split(/\s+/).filter(Boolean);
  const found = operations.filter(({ id, method, path, tag, summary }) => {
    const text = `${id} ${method} ${path} ${tag} ${summary}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
  return [...Map.groupBy(found, ({ tag }) => tag)];
}

function Sidebar({
  groups,
  wanted,
  onWanted,
}: {
  readonly groups: readonly Group[];
  readonly wanted: string;
  readonly onWanted: (text: string) => void;
}) {
  return (
    <aside className="flex flex-col gap-3 border-line bg-surface p-4 max-md:border-b md:sticky md:top-0 md:h-screen md:w-72 md:shrink-0 md:border-r">
      <div className="flex items-center justify-between">
        <Link to="/" className="rounded" aria-label="Dashboard">
          <Mark />
        </Link>
        <ThemeButton />
      </div>
      <Field
        label="Find an operation"
        type="search"
        value={wanted}
        onChange={({ target }) => onWanted(target.value)}
      />
      <nav aria-label="Operations" tabIndex={0} className="min-h-0 flex-1 overflow-y-auto max-md:hidden">
        {groups.map(([tag, operations]) => (
          <div key={tag} className="mb-3">
            <h2 className="mb-1 font-semibold">{tag}</h2>
            <ul>
              {operations.map(({ id, summary }) => (
                <li key={id}>
                  <Link
                    to="/docs"
                    hash={id}
                    className="block truncate rounded-md px-2 py-0.5 text-ink-soft hover:bg-sunken hover:text-ink"
                    title={summary}
                  >
                    {summary}
                  </Link>
                </li>
              ))}
            </ul>
          </div>
        ))}
      </nav>
    </aside>
  );
}

function TokenCard({ caller: { isSignedIn, email, pasted, paste } }: { readonly caller: Caller }) {
  return (
    <Card title="Who you are">
      <div className="flex flex-col gap-3">
        <p className="text-ink-soft">
          {pasted !== "" ? (
            "Requests are sent with the token below. It stays in this page, and is gone when you close it."
          ) : isSignedIn ? (
            <>
              Requests are sent as {email ?? "the person who is signed in"}. Paste a token to use that
              instead.
            </>
          ) : (
            <>
              <Link to="/sign-in" search={{ to: "/docs" }} className="text-accent underline">
                Sign in
              </Link>{" "}
              or paste a token to try operations on this service.
            </>
          )}
        </p>
        <Field
          label="Token"
          type="password"
          autoComplete="off"
          value={pasted}
          className="max-w-xl"
          onChange={({ target }) => paste(target.value)}
        />
      </div>
    </Card>
  );
}

function Groups({
  document,
  groups,
  caller,
}: {
  readonly document: ApiDocument;
  readonly groups: readonly Group[];
  readonly caller: Caller;
}) {
  const { hash } = useLocation();
  const [given, setGiven] = useState<Readonly<Record<string, string>>>({});
  const project = localStorage.getItem("project") ?? caller.projectId;
  const values = { ...(project !== null && { project_id: project }), ...given };
  useEffect(() => {
    if (hash !== "") window.document.getElementById(hash)?.scrollIntoView();
  }, [hash]);
  if (groups.length === 0) return <p className="text-ink-soft">No operation matches.</p>;
  return groups.map(([tag, operations]) => (
    <Card key={tag} title={tag} isFlush>
      {operations.map((operation) => (
        <OperationView
          key={operation.id}
          operation={operation}
          schemas={document.schemas}
          caller={caller}
          isLinked={hash === operation.id}
          values={values}
          onValue={(name, value) => setGiven((before) => ({ ...before, [name]: value }))}
        />
      ))}
    </Card>
  ));
}
