import { useParams } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { useIsOwner } from "../api/members.ts";
import { Page } from "../parts/page.tsx";
import { SecretsCard } from "./secrets/secrets-card.tsx";
import { Address } from "./settings/address.tsx";
import { Invitations } from "./settings/invitations.tsx";
import { Isolation } from "./settings/isolation.tsx";
import { Members } from "./settings/members.tsx";
import { Password } from "./settings/password.tsx";
import { Projects } from "./settings/projects.tsx";
import { Sessions } from "./settings/sessions.tsx";

/** Who belongs to the project and who is invited, the secrets of all its apps, the person's projects and account. */
export function Settings() {
  const { projectId } = useParams({ from: "/gate/projects/$projectId" });
  const isOwner = useIsOwner(projectId) ?? false;
  return (
    <Page title="Settings" subtitle="Of the project, of yourself, and of the installation.">
      <Subject title="This project">
        <Members projectId={projectId} />
        {isOwner && <Invitations projectId={projectId} />}
        <SecretsCard holder={{ projectId, appName: null }} />
      </Subject>
      <Subject title="Your projects and account">
        <Projects projectId={projectId} />
        <div className="grid gap-4 lg:grid-cols-2">
          <Address />
          <Password />
        </div>
        <Sessions />
      </Subject>
      <Isolation />
    </Page>
  );
}

/** What is about one thing, under its name. */
function Subject({ title, children }: { readonly title: string; readonly children: ReactNode }) {
  return (
    <div role="group" aria-label={title} className="flex flex-col gap-4">
      <p aria-hidden="true" className="mt-2 text-[1.15rem] font-semibold">
        {title}
      </p>
      {children}
    </div>
  );
}
