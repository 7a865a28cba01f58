"""What the rows of scheduling refuse, whoever writes them, also by raw SQL.

* A lease on insert locks the capacity row of its node and is refused (23514) if the node's live leases would exceed what the node has, or if one
  of its cards is promised already. So the cycle's guarded `UPDATE … SET free = free - x WHERE free >= x` decides quickly, and this trigger makes a
  mistake in it impossible. Order for every writer: capacity row first, then the lease.
* What a lease promised never changes; freed capacity is not taken back under the same lease.
* What has ended stays ended: leases, attempts.
* A task's fence only grows, and an attempt is born with the fence of its task.
* A change of capacity bears the id of its transaction (`changed_in`, for the snapshot's deltas) and raises `version`.
* Log chunks and stored answers are written once.
"""

from django.db import migrations

GUARD = """
CREATE FUNCTION scheduling_lease_fits() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    room scheduling_nodestate;
    cores bigint; memory bigint; disk bigint; taken bigint;
BEGIN
    SELECT * INTO room FROM scheduling_nodestate WHERE node_id = NEW.node_id FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'node % has no capacity row', NEW.node_id USING ERRCODE = '23514';
    END IF;
    SELECT coalesce(sum(cores_milli), 0), coalesce(sum(memory_mib), 0), coalesce(sum(disk_gib), 0), coalesce(sum(cards), 0)
      INTO cores, memory, disk, taken
      FROM scheduling_lease WHERE node_id = NEW.node_id AND NOT capacity_freed;
    IF cores + NEW.cores_milli > room.total_cores_milli OR memory + NEW.memory_mib > room.total_memory_mib
       OR disk + NEW.disk_gib > room.total_disk_gib OR taken + NEW.cards > room.total_cards THEN
        RAISE EXCEPTION 'the lease exceeds what node % has left', NEW.node_id
            USING ERRCODE = '23514', CONSTRAINT = 'lease_fits_node';
    END IF;
    IF EXISTS (SELECT 1 FROM scheduling_lease held, jsonb_array_elements(NEW.devices) wanted
               WHERE held.node_id = NEW.node_id AND NOT held.capacity_freed AND held.devices @> jsonb_build_array(wanted)) THEN
        RAISE EXCEPTION 'a card of node % is promised already', NEW.node_id
            USING ERRCODE = '23514', CONSTRAINT = 'lease_cards_free';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER lease_fits_node BEFORE INSERT ON scheduling_lease
    FOR EACH ROW WHEN (NOT NEW.capacity_freed) EXECUTE FUNCTION scheduling_lease_fits();

CREATE FUNCTION scheduling_lease_keeps_its_word() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.capacity_freed AND NOT NEW.capacity_freed THEN
        RAISE EXCEPTION 'freed capacity is not taken back' USING ERRCODE = '23514', CONSTRAINT = 'lease_freed_once';
    END IF;
    IF OLD.state IN ('released', 'expired', 'revoked') AND NEW.state <> OLD.state THEN
        RAISE EXCEPTION 'an ended lease stays ended' USING ERRCODE = '23514', CONSTRAINT = 'lease_ends_once';
    END IF;
    IF (OLD.attempt_id, OLD.node_id, OLD.fence, OLD.cores_milli, OLD.memory_mib, OLD.disk_gib, OLD.cards, OLD.devices, OLD.prices)
       IS DISTINCT FROM
       (NEW.attempt_id, NEW.node_id, NEW.fence, NEW.cores_milli, NEW.memory_mib, NEW.disk_gib, NEW.cards, NEW.devices, NEW.prices) THEN
        RAISE EXCEPTION 'what a lease promised does not change' USING ERRCODE = '23514', CONSTRAINT = 'lease_terms_fixed';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER lease_keeps_its_word BEFORE UPDATE ON scheduling_lease
    FOR EACH ROW EXECUTE FUNCTION scheduling_lease_keeps_its_word();

CREATE FUNCTION scheduling_attempt_begins() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.fence <> (SELECT fence FROM scheduling_task WHERE id = NEW.task_id) THEN
        RAISE EXCEPTION 'an attempt is born with the fence of its task' USING ERRCODE = '23514', CONSTRAINT = 'attempt_fence_of_task';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER attempt_begins BEFORE INSERT ON scheduling_attempt
    FOR EACH ROW EXECUTE FUNCTION scheduling_attempt_begins();

CREATE FUNCTION scheduling_attempt_ends_once() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.state <> OLD.state OR NEW.reason <> OLD.reason OR NEW.fence <> OLD.fence
       OR NEW.result_accepted <> OLD.result_accepted THEN
        RAISE EXCEPTION 'an ended attempt stays ended' USING ERRCODE = '23514', CONSTRAINT = 'attempt_ends_once';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER attempt_ends_once BEFORE UPDATE ON scheduling_attempt
    FOR EACH ROW
    WHEN (OLD.state IN ('succeeded', 'failed', 'oom', 'timeout', 'cancelled', 'assignment_expired', 'lost'))
    EXECUTE FUNCTION scheduling_attempt_ends_once();

CREATE FUNCTION scheduling_fence_grows() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a fence only grows' USING ERRCODE = '23514', CONSTRAINT = 'task_fence_grows';
END $$;
CREATE TRIGGER task_fence_grows BEFORE UPDATE OF fence ON scheduling_task
    FOR EACH ROW WHEN (NEW.fence < OLD.fence) EXECUTE FUNCTION scheduling_fence_grows();
CREATE TRIGGER attempt_fence_fixed BEFORE UPDATE OF fence ON scheduling_attempt
    FOR EACH ROW WHEN (NEW.fence <> OLD.fence) EXECUTE FUNCTION scheduling_fence_grows();

CREATE FUNCTION scheduling_capacity_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.changed_in := pg_current_xact_id()::text::bigint;
    IF TG_OP = 'UPDATE' THEN
        NEW.version := OLD.version + 1;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER capacity_made BEFORE INSERT ON scheduling_nodestate
    FOR EACH ROW EXECUTE FUNCTION scheduling_capacity_changed();
CREATE TRIGGER capacity_changed BEFORE UPDATE ON scheduling_nodestate
    FOR EACH ROW
    WHEN ((OLD.total_cores_milli, OLD.total_memory_mib, OLD.total_disk_gib, OLD.total_cards, OLD.free_cores_milli, OLD.free_memory_mib,
           OLD.free_disk_gib, OLD.free_cards, OLD.open, OLD.kept_for, OLD.kept_until)
          IS DISTINCT FROM
          (NEW.total_cores_milli, NEW.total_memory_mib, NEW.total_disk_gib, NEW.total_cards, NEW.free_cores_milli, NEW.free_memory_mib,
           NEW.free_disk_gib, NEW.free_cards, NEW.open, NEW.kept_for, NEW.kept_until))
    EXECUTE FUNCTION scheduling_capacity_changed();

CREATE FUNCTION scheduling_written_once() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is written once', TG_TABLE_NAME USING ERRCODE = '42501';
END $$;
CREATE TRIGGER log_chunk_written_once BEFORE UPDATE ON scheduling_logchunk
    FOR EACH STATEMENT EXECUTE FUNCTION scheduling_written_once();
CREATE TRIGGER report_written_once BEFORE UPDATE ON scheduling_attemptreport
    FOR EACH STATEMENT EXECUTE FUNCTION scheduling_written_once();
"""
UNDO = """
DROP TRIGGER report_written_once ON scheduling_attemptreport;
DROP TRIGGER log_chunk_written_once ON scheduling_logchunk;
DROP FUNCTION scheduling_written_once();
DROP TRIGGER capacity_changed ON scheduling_nodestate;
DROP TRIGGER capacity_made ON scheduling_nodestate;
DROP FUNCTION scheduling_capacity_changed();
DROP TRIGGER attempt_fence_fixed ON scheduling_attempt;
DROP TRIGGER task_fence_grows ON scheduling_task;
DROP FUNCTION scheduling_fence_grows();
DROP TRIGGER attempt_ends_once ON scheduling_attempt;
DROP FUNCTION scheduling_attempt_ends_once();
DROP TRIGGER attempt_begins ON scheduling_attempt;
DROP FUNCTION scheduling_attempt_begins();
DROP TRIGGER lease_keeps_its_word ON scheduling_lease;
DROP FUNCTION scheduling_lease_keeps_its_word();
DROP TRIGGER lease_fits_node ON scheduling_lease;
DROP FUNCTION scheduling_lease_fits();
"""


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0001_start")]
    operations = [migrations.RunSQL(GUARD, UNDO)]
