"""The jobs that are not one of the eight steps, one file each, and `job_types`, which declares all jobs."""
