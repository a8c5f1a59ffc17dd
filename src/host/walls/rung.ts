/** What an app can live behind, from the weakest to the strongest; each includes those before it. */
export const RUNGS = ["process", "landlock", "userns", "uid"] as const;
export type Rung = (typeof RUNGS)[number];

/** For each rung, why this host cannot give it; null where it can. */
export type Offer = Readonly<Record<Rung, string | null>>;

/** What to do about a rung that the host does not give. */
export const RUNG_REMEDIES: Readonly<Record<Rung, string>> = {
  process:
    "the kernel must allow seccomp filters (in a container, no profile may forbid them), and Python must have ctypes",
  landlock:
    "Linux 6.12 or newer with Landlock switched on is needed (`cat /sys/kernel/security/lsm` names it; else boot with lsm=landlock,…)",
  userns:
    "ordinary users must be allowed user namespaces (sysctl kernel.unprivileged_userns_clone=1, user.max_user_namespaces above 0, kernel.apparmor_restrict_unprivileged_userns=0) and a whole /proc (see docs/security.md for containers and systemd), and Landlock must be switched on",
  uid: "start the service as root, in a user namespace (if in any) that knows the ids of MILLRACE_UID_RANGE, with a data directory on a file system that stores owners; userns must hold too",
};

/** The strongest rung that the host gives together with all before it; null for none. */
export function highestRung(offer: Offer): Rung | null {
  return RUNGS.findLast((rung) => offer[rung] === null) ?? null;
}
