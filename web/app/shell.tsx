import { useQuery } from "@tanstack/react-query";
import { Link, Outlet, useNavigate, useParams } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { installation } from "../api/installation.ts";
import { meQuery } from "../api/me.ts";
import { session } from "../api/session.ts";
import { classes } from "../parts/classes.ts";
import { Mark } from "../parts/mark.tsx";
import { Problem } from "../parts/problem.tsx";
import { Skeleton } from "../parts/skeleton.tsx";
import { tellError } from "../parts/toasts.tsx";
import { Icon } from "./icons.tsx";
import type { IconName } from "./icons.tsx";
import { Palette } from "./palette.tsx";
import { ThemeButton } from "./theme-button.tsx";

const PLACES = [
  { title: "Overview", to: "/projects/$projectId", icon: "overview" },
  { title: "Apps", to: "/projects/$projectId/apps", icon: "apps" },
  { title: "Runs", to: "/projects/$projectId/runs", icon: "runs" },
  { title: "Usage", to: "/projects/$projectId/usage", icon: "usage" },
  { title: "API keys", to: "/projects/$projectId/keys", icon: "keys" },
  { title: "Webhooks", to: "/projects/$projectId/webhooks", icon: "webhooks" },
  { title: "Files", to: "/projects/$projectId/files", icon: "files" },
  { title: "Audit", to: "/projects/$projectId/audit", icon: "audit" },
  { title: "Nodes", to: "/projects/$projectId/nodes", icon: "nodes", isOperators: true },
  { title: "Hardware", to: "/projects/$projectId/hardware", icon: "hardware", isOperators: true },
  { title: "Settings", to: "/projects/$projectId/settings", icon: "settings" },
] as const satisfies readonly { title: string; to: string; icon: IconName; isOperators?: true }[];

/** What every page of a project has around it: the way to the others, the projects, who is signed in. */
export function Shell() {
  const { projectId } = useParams({ from: "/gate/projects/$projectId" });
  const [isMenuOpen, setMenuOpen] = useState(false);
  const [isPaletteOpen, setPaletteOpen] = useState(false);
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      if (event.key.toLowerCase() !== "k" || !(event.metaKey || event.ctrlKey)) return;
      event.preventDefault();
      setPaletteOpen((isOpen) => !isOpen);
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, []);
  useEffect(() => {
    localStorage.setItem("project", projectId);
  }, [projectId]);
  const { data: me } = useQuery(meQuery);
  const places = PLACES.filter((place) => !("isOperators" in place) || me?.isOperator === true);
  const close = (): void => setMenuOpen(false);
  return (
    <div className="flex min-h-screen max-md:flex-col">
      <a
        href="#content"
        className="sr-only focus:not-sr-only focus:absolute focus:z-50 focus:bg-raised focus:p-3"
      >
        Skip to the content
      </a>
      <header className="sticky top-0 z-20 flex h-13 items-center gap-2 border-b border-line bg-surface px-3 md:hidden">
        <button
          type="button"
          aria-label="Menu"
          aria-expanded={isMenuOpen}
          onClick={() => setMenuOpen((isOpen) => !isOpen)}
          className="rounded-md p-2 hover:bg-sunken"
        >
          <Icon name="menu" />
        </button>
        <Mark />
      </header>
      <aside
        className={classes(
          "flex flex-col border-line bg-surface md:sticky md:top-0 md:h-screen md:w-57 md:shrink-0 md:border-r",
          "max-md:border-b",
          !isMenuOpen && "max-md:hidden",
        )}
      >
        <div className="px-4 pt-4 pb-2 max-md:hidden">
          <Mark />
        </div>
        <Projects projectId={projectId} />
        <button
          type="button"
          onClick={() => setPaletteOpen(true)}
          className="mx-3 mt-2 flex h-8.5 items-center gap-2 rounded-md border border-line px-2.5 text-ink-faint hover:border-line-strong"
        >
          <Icon name="search" className="size-4" />
          Go to…
          <kbd className="ml-auto font-sans text-[0.82rem]">Ctrl K</kbd>
        </button>
        <nav aria-label="Project" className="mt-3 flex flex-col gap-0.5 px-3">
          {places.map(({ title, to, icon }) => (
            <Link
              key={title}
              to={to}
              params={{ projectId }}
              onClick={close}
              activeOptions={{ exact: icon === "overview", includeSearch: false }}
              className="flex h-8.5 items-center gap-2.5 rounded-md px-2.5 font-medium text-ink-soft hover:bg-sunken hover:text-ink"
              activeProps={{ className: "!bg-accent-soft !text-accent", "aria-current": "page" }}
            >
              <Icon name={icon} />
              {title}
            </Link>
          ))}
        </nav>
        <Person />
      </aside>
      <main id="content" className="min-w-0 flex-1">
        <Outlet />
      </main>
      <Palette projectId={projectId} isOpen={isPaletteOpen} onClose={() => setPaletteOpen(false)} />
    </div>
  );
}

function Projects({ projectId }: { readonly projectId: string }) {
  const navigate = useNavigate();
  const { data: me, error } = useQuery(meQuery);
  if (error) return <Problem error={error} />;
  if (!me) return <Skeleton className="mx-3 mt-2 h-8.5" />;
  const known = me.projects.some(({ id }) => id === projectId);
  return (
    <div className="px-3 pt-2">
      <select
        aria-label="Project"
        value={projectId}
        onChange={({ target }) =>
          void navigate({ to: "/projects/$projectId", params: { projectId: target.value } })
        }
        className="h-8.5 w-full truncate rounded-md border border-line bg-surface px-2 font-medium"
      >
        {!known && <option value={projectId}>{projectId}</option>}
        {me.projects.map(({ id, name }) => (
          <option key={id} value={id}>
            {name}
          </option>
        ))}
      </select>
    </div>
  );
}

function Person() {
  const { data: me } = useQuery(meQuery);
  return (
    <div className="mt-auto border-t border-line p-3 text-[0.92rem] max-md:mt-3">
      <div className="flex items-center gap-2 px-1">
        <span className="min-w-0 flex-1 truncate text-ink-soft" title={me?.email}>
          {me?.email ?? " "}
        </span>
        <ThemeButton />
      </div>
      <div className="mt-1 flex items-center justify-between px-1">
        <button
          type="button"
          onClick={() => void session.signOut().catch(tellError)}
          className="rounded text-ink-soft underline-offset-2 hover:text-ink hover:underline"
        >
          Sign out
        </button>
        <span className="flex gap-3 text-ink-faint">
          <a href="/guide/" className="underline-offset-2 hover:underline">
            Guide
          </a>
          <a href="/docs" className="underline-offset-2 hover:underline">
            API {installation.version}
          </a>
        </span>
      </div>
    </div>
  );
}
