// minio-go, version 7.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"fencepost.test/clients/report"
)

var (
	endpoint  = report.Endpoint
	region    = report.Region
	accessKey = report.AccessKey
	secretKey = report.SecretKey
	bucket    = report.Bucket
	prefix    = report.Prefix
)

// docs:begin
func client(token string) (*minio.Client, error) {
	session := ""
	if token != "" {
		session = "fence:" + token
	}
	scheme, address, _ := strings.Cut(endpoint, "://")
	return minio.New(address, &minio.Options{
		Creds:  credentials.NewStaticV4(accessKey, secretKey, session),
		Region: region,
		Secure: scheme == "https",
	})
}

// docs:end

var (
	ctx = context.Background()
	api *minio.Client
)

func put(*report.Result) error {
	_, err := api.FPutObject(ctx, bucket, prefix+"/put", report.SmallFile, minio.PutObjectOptions{})
	return err
}

func get(result *report.Result) error {
	object, err := api.GetObject(ctx, bucket, prefix+"/source", minio.GetObjectOptions{})
	if err != nil {
		return err
	}
	defer object.Close()
	body, err := io.ReadAll(object)
	result.Body = string(body)
	return err
}

func list(result *report.Result) error {
	for entry := range api.ListObjects(ctx, bucket, minio.ListObjectsOptions{Prefix: prefix + "/listed/"}) {
		if entry.Err != nil {
			return entry.Err
		}
		result.Keys = append(result.Keys, entry.Key)
	}
	return nil
}

func copyObject(*report.Result) error {
	_, err := api.CopyObject(ctx,
		minio.CopyDestOptions{Bucket: bucket, Object: prefix + "/copy"},
		minio.CopySrcOptions{Bucket: bucket, Object: prefix + "/source"})
	return err
}

func multipart(*report.Result) error {
	options := minio.PutObjectOptions{PartSize: report.PartBytes}
	_, err := api.FPutObject(ctx, bucket, prefix+"/multipart", report.LargeFile, options)
	return err
}

func deleteBatch(result *report.Result) error {
	objects := make(chan minio.ObjectInfo)
	go func() {
		defer close(objects)
		for _, name := range report.Batch() {
			objects <- minio.ObjectInfo{Key: name}
		}
	}()
	var refused []error
	for entry := range api.RemoveObjects(ctx, bucket, objects, minio.RemoveObjectsOptions{}) {
		refused = append(refused, fmt.Errorf("%s: %w", entry.ObjectName, entry.Err))
	}
	return errors.Join(refused...)
}

func presign(result *report.Result) error {
	put, err := api.PresignedPutObject(ctx, bucket, prefix+"/presigned", time.Minute)
	if err != nil {
		return err
	}
	get, err := api.PresignedGetObject(ctx, bucket, prefix+"/source", time.Minute, nil)
	if err != nil {
		return err
	}
	result.Links = map[string]string{"PUT": put.String(), "GET": get.String()}
	return nil
}

func refusal(err error, result *report.Result) {
	var refused minio.ErrorResponse
	if errors.As(err, &refused) {
		result.Code, result.Status = refused.Code, refused.StatusCode
	}
}

func main() {
	var err error
	if api, err = client(report.Token); err != nil {
		panic(err)
	}
	report.Run(map[string]func(*report.Result) error{
		"put": put, "get": get, "list": list, "copy": copyObject, "multipart": multipart,
		"delete-batch": deleteBatch, "presign": presign,
	}, refusal)
}
