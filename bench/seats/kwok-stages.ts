/**
 * What kwok does with pods of the machines that it plays: they run as soon as they have one, and are gone when deleted. It
 * plays no machine for which it has no stage.
 */
export const STAGES = `
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: machine-runs}
spec:
  resourceRef: {apiGroup: v1, kind: Node}
  selector:
    matchExpressions:
      - {key: .status.phase, operator: DoesNotExist}
  next:
    statusTemplate: |
      phase: Running
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: seat-runs}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
      - {key: .metadata.deletionTimestamp, operator: DoesNotExist}
      - {key: .status.phase, operator: In, values: [Pending]}
  next:
    statusTemplate: |
      phase: Running
      startTime: {{ Now | Quote }}
      containerStatuses:
        - {name: seat, image: worker, imageID: worker, ready: true, restartCount: 0, state: {running: {startedAt: {{ Now | Quote }}}}}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: seat-goes}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
      - {key: .metadata.deletionTimestamp, operator: Exists}
  next: {delete: true}
`;
