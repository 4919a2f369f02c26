"""What all other packages of workers use: processes, scripts, the files of a job, the job context."""
