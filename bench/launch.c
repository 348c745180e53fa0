/* Run one command and report what it cost: launch REPORT SECONDS PRELOAD -- command args...
 *
 * A child's ru_maxrss starts from the memory of the process that called exec, so a measuring script of 30 MB would hide every program
 * smaller than itself. This launcher is linked statically and stays under 1 MB. PRELOAD is a path or "" and is set for the command alone.
 * Writes one line to the file REPORT: exit_code user_s sys_s wall_s peak_rss_kib minor_faults major_faults. After SECONDS the
 * command's whole process group is ended and the exit code is 124. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t timed_out;
static pid_t child;

static void on_alarm(int number)
{
    (void)number;
    timed_out = 1;
    kill(-child, SIGKILL);
}

static void on_stop(int number)
{
    kill(-child, SIGKILL);
    _exit(128 + number);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static _Noreturn void run_command(char **command, const char *preload)
{
    setpgid(0, 0);
    if (*preload)
        setenv("LD_PRELOAD", preload, 1);
    execvp(command[0], command);
    fprintf(stderr, "launch: %s: %s\n", command[0], strerror(errno));
    _exit(127);
}

int main(int argc, char **argv)
{
    struct rusage usage;
    int status = 0, code;
    if (argc < 6 || strcmp(argv[4], "--") != 0 || atoi(argv[2]) <= 0) {
        fputs("usage: launch REPORT SECONDS PRELOAD -- command args...\n", stderr);
        return 2;
    }
    double start = now();
    child = fork();
    if (child < 0) {
        perror("launch: fork");
        return 2;
    }
    if (child == 0)
        run_command(argv + 5, argv[3]);
    setpgid(child, child);
    signal(SIGALRM, on_alarm);
    signal(SIGTERM, on_stop);
    signal(SIGINT, on_stop);
    alarm((unsigned)atoi(argv[2]));
    while (wait4(child, &status, 0, &usage) < 0)
        if (errno != EINTR)
            return 2;
    double wall = now() - start;
    code = timed_out ? 124 : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    FILE *report = fopen(argv[1], "w");
    if (!report) {
        perror("launch: report");
        return 2;
    }
    fprintf(report, "%d %.6f %.6f %.6f %ld %ld %ld\n", code, (double)usage.ru_utime.tv_sec + (double)usage.ru_utime.tv_usec * 1e-6,
        (double)usage.ru_stime.tv_sec + (double)usage.ru_stime.tv_usec * 1e-6, wall, usage.ru_maxrss, usage.ru_minflt, usage.ru_majflt);
    return fclose(report) ? 2 : 0;
}
