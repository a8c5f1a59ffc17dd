import { Link } from "@tanstack/react-router";

/** The way from the root of the storage to a folder, each step a link. */
export function FolderPath({ projectId, dir }: { readonly projectId: string; readonly dir: string }) {
  const names = dir.split("/").filter(Boolean);
  const steps = names.map((name, index) => ({ name, dir: `/${names.slice(0, index + 1).join("/")}/` }));
  return (
    <nav aria-label="Folder" className="flex min-w-0 flex-wrap items-center gap-1 font-medium">
      {[{ name: "storage", dir: "/" }, ...steps].map((step, index) => (
        <span key={step.dir} className="flex min-w-0 items-center gap-1">
          {index > 0 && <span className="text-ink-faint">/</span>}
          <Link
            to="/projects/$projectId/files"
            params={{ projectId }}
            search={step.dir === "/" ? {} : { dir: step.dir }}
            aria-current={index === names.length ? "page" : undefined}
            title={step.name}
            className="max-w-60 truncate underline-offset-2 hover:underline"
          >
            {step.name}
          </Link>
        </span>
      ))}
    </nav>
  );
}
