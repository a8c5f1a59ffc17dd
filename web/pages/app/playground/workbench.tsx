import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import type { AppFunction } from "../../../api/app-document.ts";
import { CALL_MODES, LANGUAGES } from "../../../api/playground-search.ts";
import type { CallMode, PlaygroundSearch } from "../../../api/playground-search.ts";
import { snippet } from "../../../api/snippets.ts";
import { Card } from "../../../parts/card.tsx";
import { Choice } from "../../../parts/field.tsx";
import { Picker } from "../../../parts/picker.tsx";
import { AnswerCard } from "./answer-card.tsx";
import { AsCode } from "./as-code.tsx";
import { EMPTY_DRAFT, withJson } from "./arguments.ts";
import { CallForm } from "./call-form.tsx";
import { useCall } from "./use-call.ts";

type Props = {
  readonly projectId: string;
  readonly appName: string;
  readonly functions: readonly AppFunction[];
  readonly fn: AppFunction;
  readonly search: PlaygroundSearch;
  /** The input to begin with, as JSON; null for none. */
  readonly input: string | null;
};

const MODE_TITLES: Record<CallMode, string> = { sync: "Sync", async: "Async", stream: "Stream" };
const MODE_HINTS: Record<CallMode, string> = {
  sync: "Waits for the result.",
  async:
    "Answered at once with the run's id; the function runs in the background, and its result is shown when it ends.",
  stream: "Shows each message as the function yields it.",
};

/** A function to call: what with, how, what came back, and the same as code. */
export function Workbench({ projectId, appName, functions, fn, search, input }: Props) {
  const navigate = useNavigate();
  const [draft, setDraft] = useState(() => (input === null ? EMPTY_DRAFT : withJson(EMPTY_DRAFT, input)));
  const { answer, messages, error, isBusy, send, stop } = useCall();
  const { mode = fn.isStream ? "stream" : "sync", code = "curl", view = "messages" } = search;
  const isJson = search.input === "json";
  const call = { projectId, appName, functionName: fn.name, mode, body: draft.json };
  const setSearch = (change: PlaygroundSearch): void => {
    const to = "/projects/$projectId/apps/$appName/playground" as const;
    const params = { projectId, appName };
    void navigate({ to, params, search: { ...search, ...change }, replace: true, resetScroll: false });
  };
  const pickFunction = (name: string): void => {
    const { from: _from, mode: _mode, ...rest } = search;
    const to = "/projects/$projectId/apps/$appName/playground" as const;
    void navigate({ to, params: { projectId, appName }, search: { ...rest, function: name }, replace: true });
  };
  const pickInput = (name: "form" | "json"): void => {
    const { input: _, ...rest } = search;
    const to = "/projects/$projectId/apps/$appName/playground" as const;
    const next = name === "json" ? { ...rest, input: name } : rest;
    void navigate({
      to,
      params: { projectId, appName },
      search: next,
      replace: true,
      resetScroll: false,
    });
  };
  return (
    <div className="grid grid-cols-1 items-start gap-4 lg:grid-cols-2">
      <Card
        title="Call"
        actions={
          <Picker
            label="Arguments"
            names={["form", "json"]}
            titles={{ form: "Form", json: "JSON" }}
            picked={isJson ? "json" : "form"}
            onPick={pickInput}
          />
        }
      >
        <div className="mb-4 flex flex-wrap items-end gap-3">
          <div className="min-w-40 flex-1">
            <Choice label="Function" value={fn.name} onChange={({ target }) => pickFunction(target.value)}>
              {functions.map(({ name }) => (
                <option key={name}>{name}</option>
              ))}
            </Choice>
          </div>
          <Picker
            label="Mode"
            names={CALL_MODES}
            titles={MODE_TITLES}
            picked={mode}
            onPick={(name) => setSearch({ mode: name })}
          />
        </div>
        <p className="mb-4 text-[0.9rem] text-ink-soft">{MODE_HINTS[mode]}</p>
        {fn.summary !== "" && <p className="mb-4 break-words whitespace-pre-wrap">{fn.summary}</p>}
        <CallForm
          fn={fn}
          draft={draft}
          onChange={setDraft}
          isJson={isJson}
          faults={answer?.faults ?? {}}
          isBusy={isBusy}
          onSend={() => send(call)}
          onStop={stop}
        />
      </Card>
      <div className="flex min-w-0 flex-col gap-4">
        <AnswerCard
          projectId={projectId}
          appName={appName}
          answer={answer}
          messages={messages}
          error={error}
          isBusy={isBusy}
          view={view}
          onView={(next) => setSearch({ view: next })}
        />
        <AsCode
          languages={LANGUAGES}
          picked={code}
          onPick={(name) => setSearch({ code: name })}
          text={snippet(code, call)}
        />
      </div>
    </div>
  );
}
