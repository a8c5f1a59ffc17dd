import { Link, useParams, useSearch } from "@tanstack/react-router";
import { DEFAULT_RANGE } from "../../api/figures.ts";
import { FiguresView } from "../overview/figures-view.tsx";
import { RangePicker } from "../overview/range-picker.tsx";
import { Facts } from "./overview/facts.tsx";
import { Gpus } from "./overview/gpus.tsx";
import { Replicas } from "./overview/replicas.tsx";

/** How one app is doing: what serves, its figures, its replicas. */
export function AppOverview() {
  const { projectId, appName } = useParams({ from: "/gate/projects/$projectId/apps/$appName" });
  const { range = DEFAULT_RANGE } = useSearch({ from: "/gate/projects/$projectId/apps/$appName/" });
  const params = { projectId, appName };
  return (
    <div className="flex flex-col gap-4">
      <Facts projectId={projectId} appName={appName} range={range} />
      <div className="flex justify-end">
        <RangePicker range={range} link={{ to: "/projects/$projectId/apps/$appName", params }} />
      </div>
      <FiguresView
        projectId={projectId}
        appName={appName}
        range={range}
        empty={
          <span>
            No runs in this time. Try it in the{" "}
            <Link
              to="/projects/$projectId/apps/$appName/playground"
              params={params}
              className="pointer-events-auto text-accent underline"
            >
              playground
            </Link>
            .
          </span>
        }
      />
      <Gpus projectId={projectId} appName={appName} />
      <Replicas projectId={projectId} appName={appName} />
    </div>
  );
}
